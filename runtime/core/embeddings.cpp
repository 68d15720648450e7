#include "llmc/embeddings.h"

#include "config.h"
#include "forward.h"
#include "message.h"

using llmc::core::ReentrancyGuard;

namespace llmc::core {
namespace {

/// Fails if an element is NaN or infinite.
llmc_status check_rows(const llmc_session& session, const float* rows, size_t n) {
  const size_t width = session.model->embedding_width;
  for (size_t i = 0; i < n * width; ++i) {
    if (rows[i] - rows[i] == 0.0f) continue;
    Message()
        .text("the embedding at index ")
        .number(i / width)
        .text(" has an element that is NaN or infinite")
        .send(session.config, LLMC_LOG_ERROR);
    return LLMC_ERROR_NOT_FINITE;
  }
  return LLMC_OK;
}

/// Checks positions that are relative to the position of the next token. Fails if one is negative,
/// or so large that the positions of a full context of tokens after it would exceed kPositionLimit.
llmc_status check_positions(llmc_session& session, const int32_t* positions, size_t n) {
  const CachedTokens& cached = session.selected().cached;
  const int64_t next = int64_t{cached.position} + cached.shift;
  const int64_t largest = kPositionLimit - next - session.model->ctx;
  const uint32_t axes = session.model->position_axes;
  for (size_t i = 0; i < n * axes; ++i) {
    if (positions[i] >= 0 && positions[i] <= largest) continue;
    Message()
        .text("a position of the embedding at index ")
        .number(i / axes)
        .text(positions[i] < 0 ? " is negative" : " is too large")
        .send(session.config, LLMC_LOG_ERROR);
    return LLMC_ERROR_POSITION;
  }
  return LLMC_OK;
}

}  // namespace
}  // namespace llmc::core

extern "C" {

size_t llmc_embedding_width(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->embedding_width;
}

llmc_status llmc_append_embeddings(llmc_session* session, const float* rows, size_t n,
                                   size_t* done) {
  if (session != nullptr && session->busy) return LLMC_ERROR_BUSY;
  if (done != nullptr) *done = 0;
  if (session == nullptr || (rows == nullptr && n > 0)) return LLMC_ERROR_ARGUMENT;
  if (session->model->embedding_width == 0) return LLMC_ERROR_EMBEDDINGS;
  const ReentrancyGuard guard(*session);
  if (const llmc_status bad = llmc::core::check_rows(*session, rows, n)) return bad;
  return llmc::core::append_all(*session, {nullptr, rows}, n, done);
}

uint32_t llmc_position_axes(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->position_axes;
}

llmc_status llmc_append_embeddings_at(llmc_session* session, const float* rows,
                                      const int32_t* positions, size_t n, size_t* done) {
  if (session != nullptr && session->busy) return LLMC_ERROR_BUSY;
  if (done != nullptr) *done = 0;
  if (session == nullptr || ((rows == nullptr || positions == nullptr) && n > 0))
    return LLMC_ERROR_ARGUMENT;
  if (session->model->position_axes == 0) return LLMC_ERROR_EMBEDDINGS;
  const ReentrancyGuard guard(*session);
  if (const llmc_status bad = llmc::core::check_positions(*session, positions, n)) return bad;
  if (const llmc_status bad = llmc::core::check_rows(*session, rows, n)) return bad;
  return llmc::core::append_all(*session, {nullptr, rows, positions}, n, done);
}

llmc_status llmc_encode_image(llmc_session* session, const void* const* inputs, const int64_t* dims,
                              float* rows, size_t* n) {
  if (session != nullptr && session->busy) return LLMC_ERROR_BUSY;
  if (n != nullptr) *n = 0;
  if (session == nullptr || inputs == nullptr || rows == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->model->encode_image == nullptr) return LLMC_ERROR_EMBEDDINGS;
  if (!llmc::core::float_mode_is_default()) return LLMC_ERROR_FLOAT_MODE;
  const ReentrancyGuard guard(*session);
  session->last_chunk = 0;  // scratch is overwritten
  const uint32_t count = session->model->encode_image(&session->run, inputs, dims, rows);
  if (count == 0) {
    llmc::core::Message()
        .text("the image encoder has no input, a size out of range, or an index outside a table")
        .send(session->config, LLMC_LOG_ERROR);
    return LLMC_ERROR_ARGUMENT;
  }
  if (n != nullptr) *n = count;
  return LLMC_OK;
}

size_t llmc_image_rows(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->image_rows;
}

}  // extern "C"

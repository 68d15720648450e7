#include "llmc/embeddings.h"

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

}  // extern "C"

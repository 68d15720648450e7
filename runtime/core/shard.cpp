#include "forward.h"
#include "llmc/shards.h"

using llmc::core::ReentrancyGuard;

namespace {

/// Checks the arguments of a call that runs `n` (at most `most`) tokens of a shard.
llmc_status check_rows(const llmc_session* session, const int32_t* tokens, size_t n, size_t most,
                       const float* rows, const float* hidden) {
  if (tokens == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  const llmc_model& model = *session->model;
  if (model.shards == 0) return LLMC_ERROR_SHARD;
  const bool is_last = model.shard + 1 == model.shards;
  const bool fits = n > 0 && n <= most && (rows == nullptr) == (model.shard == 0) &&
                    (hidden == nullptr) == is_last;
  return fits ? LLMC_OK : LLMC_ERROR_ARGUMENT;
}

/// If `status` is LLMC_OK, copies the rows of `n` tokens after the shard's layers to `hidden`,
/// unless that is NULL. Returns `status`.
llmc_status pass_on(llmc_status status, const llmc_session& session, size_t n, float* hidden) {
  const llmc_model& model = *session.model;
  if (status == LLMC_OK && hidden != nullptr)
    __builtin_memcpy(hidden, session.run.scratch + model.hidden_offset,
                     n * model.hidden * sizeof(float));
  return status;
}

}  // namespace

extern "C" {

uint32_t llmc_shard(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->shard;
}

uint32_t llmc_shards(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->shards;
}

size_t llmc_hidden_width(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->hidden;
}

llmc_status llmc_forward_hidden(llmc_session* session, const int32_t* tokens, const float* rows,
                                size_t n, size_t more, float* hidden) {
  if (session == nullptr) return LLMC_ERROR_ARGUMENT;
  if (const llmc_status bad = check_rows(session, tokens, n, session->chunk, rows, hidden))
    return bad;
  const ReentrancyGuard guard(*session);
  const auto count = static_cast<uint32_t>(n);
  return pass_on(llmc::core::append_chunk(*session, {tokens, rows}, count, more), *session, n,
                 hidden);
}

llmc_status llmc_forward_hidden_batch(llmc_session* session, const uint32_t* sequences, size_t n,
                                      const int32_t* tokens, const float* rows, float* hidden) {
  if (session == nullptr || sequences == nullptr) return LLMC_ERROR_ARGUMENT;
  if (const llmc_status bad = check_rows(session, tokens, n, session->model->batch, rows, hidden))
    return bad;
  const ReentrancyGuard guard(*session);
  const auto count = static_cast<uint32_t>(n);
  return pass_on(llmc::core::append_each(*session, sequences, count, {tokens, rows}), *session, n,
                 hidden);
}

}  // extern "C"

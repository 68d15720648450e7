#include "forward.h"
#include "llmc/shards.h"

using llmc::core::ReentrancyGuard;

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
  if (session == nullptr || tokens == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  const llmc_model& model = *session->model;
  if (model.shards == 0) return LLMC_ERROR_SHARD;
  const bool is_last = model.shard + 1 == model.shards;
  if (n == 0 || n > session->chunk || (rows == nullptr) != (model.shard == 0) ||
      (hidden == nullptr) != is_last)
    return LLMC_ERROR_ARGUMENT;
  const ReentrancyGuard guard(*session);
  return llmc::core::append_chunk(*session, {tokens, rows}, static_cast<uint32_t>(n), more, hidden);
}

}  // extern "C"

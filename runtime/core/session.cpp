#include "session.h"

#include "config.h"
#include "forward.h"
#include "logits.h"

using llmc::core::float_mode_is_default;
using llmc::core::ReentrancyGuard;
using llmc::core::Sequence;

extern "C" {

llmc_status llmc_prefill(llmc_session* session, const int32_t* tokens, size_t n, size_t* done) {
  // In a callback, `done` may point to the counter of the call in progress.
  if (session != nullptr && session->busy) return LLMC_ERROR_BUSY;
  if (done != nullptr) *done = 0;
  if (session == nullptr || (tokens == nullptr && n > 0)) return LLMC_ERROR_ARGUMENT;
  const ReentrancyGuard guard(*session);
  return llmc::core::append_all(*session, {tokens, nullptr}, n, done);
}

llmc_status llmc_append(llmc_session* session, int32_t token) {
  return llmc_prefill(session, &token, 1, nullptr);
}

llmc_status llmc_step(llmc_session* session, int32_t* token) {
  if (session == nullptr || token == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  Sequence& sequence = session->selected();
  if (sequence.has_row && session->cache.room(sequence.cached) == 0 &&
      session->config.full_context == LLMC_FULL_STATUS) {
    return LLMC_ERROR_CONTEXT_FULL;
  }
  const ReentrancyGuard guard(*session);
  if (sequence.constraints.guidance.on) {
    return llmc::core::step_each(*session, &session->current, 1, token);
  }
  if (const llmc_status bad = llmc::core::draw_next(*session, sequence, sequence.stepped))
    return bad;
  const int32_t next = sequence.stepped.choice.token;
  const llmc_status status = llmc::core::append_all(*session, {&next, nullptr}, 1, nullptr);
  sequence.stepped.valid = false;
  if (status == LLMC_OK) *token = next;
  return status;
}

const float* llmc_logits(llmc_session* session) {
  if (session == nullptr || session->busy || !float_mode_is_default()) return nullptr;
  const ReentrancyGuard guard(*session);
  return llmc::core::last_logits(*session, session->selected());
}

const float* llmc_logits_at(llmc_session* session, size_t row) {
  if (session == nullptr || session->busy || row >= session->last_chunk ||
      !float_mode_is_default()) {
    return nullptr;
  }
  const ReentrancyGuard guard(*session);
  return llmc::core::row_logits(*session, static_cast<uint32_t>(row));
}

const float* llmc_logits_rows(llmc_session* session, size_t row, size_t rows) {
  if (session == nullptr || session->busy || rows == 0 || rows > session->model->batch ||
      row >= session->last_chunk || rows > session->last_chunk - row || !float_mode_is_default()) {
    return nullptr;
  }
  const ReentrancyGuard guard(*session);
  return llmc::core::rows_logits(*session, static_cast<uint32_t>(row), static_cast<uint32_t>(rows));
}

size_t llmc_last_chunk(const llmc_session* session) {
  return session == nullptr ? 0 : session->last_chunk;
}
size_t llmc_logits_computed(const llmc_session* session) {
  return session == nullptr ? 0 : session->logits_computed;
}
size_t llmc_position(const llmc_session* session) {
  return session == nullptr ? 0 : session->selected().cached.position;
}
size_t llmc_prompt_size(const llmc_session* session) {
  return session == nullptr ? 0 : llmc::core::prompt_tokens(*session);
}
llmc_status llmc_tokens(const llmc_session* session, size_t first, int32_t* tokens, size_t n) {
  if (session == nullptr || (tokens == nullptr && n > 0)) return LLMC_ERROR_ARGUMENT;
  const llmc::core::TokenHistory history = session->cache.history(session->selected().cached);
  if (first > history.count() || n > history.count() - first) return LLMC_ERROR_POSITION;
  for (size_t i = 0; i < n; ++i) tokens[i] = history[static_cast<uint32_t>(first + i)];
  return LLMC_OK;
}
size_t llmc_context_size(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->ctx;
}
size_t llmc_chunk_size(const llmc_session* session) {
  return session == nullptr ? 0 : session->chunk;
}
size_t llmc_batch_size(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->batch;
}
size_t llmc_vocabulary_size(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->vocab;
}
size_t llmc_thread_count(const llmc_session* session) {
  return session == nullptr ? 0 : session->run.threads;
}

llmc_status llmc_rewind(llmc_session* session, size_t position) {
  if (session == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  Sequence& sequence = session->selected();
  if (position > sequence.cached.position) return LLMC_ERROR_POSITION;
  if (position == sequence.cached.position) return LLMC_OK;
  const auto at = static_cast<uint32_t>(position);
  if (sequence.state_tokens > at && session->cache.has_embeddings(sequence.cached, 0, at))
    return LLMC_ERROR_EMBEDDINGS;
  // If the first dropped token is appended again, it updates mirostat's state as before.
  const int32_t token = session->cache.history(sequence.cached)[at];
  sequence.drawn = {{token, session->cache.mu(sequence.cached, at)}, at, true};
  llmc::core::truncate(*session, sequence, at);
  session->last_chunk = 0;
  sequence.has_row = false;
  sequence.best = llmc::core::kNoToken;
  return LLMC_OK;
}

}  // extern "C"

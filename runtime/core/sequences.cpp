#include "forward.h"
#include "session.h"

using llmc::core::ReentrancyGuard;
using llmc::core::Sequence;

namespace llmc::core {
bool exists(llmc_session& session, uint32_t sequence) {
  return sequence < session.model->sequences && session.sequence(sequence).alive;
}

namespace {

/// Returns the first free sequence number; model->sequences if there is none.
uint32_t free_number(llmc_session& session) {
  uint32_t i = 0;
  while (i < session.model->sequences && session.sequence(i).alive) ++i;
  return i;
}

/// Implements step_each(), except that it does not reset `stepped`.
llmc_status draw_and_append(llmc_session& session, const uint32_t* sequences, uint32_t n) {
  uint32_t* const stepped = session.stepped;
  uint32_t count = n;
  for (uint32_t i = 0; i < n; ++i) {
    if (!exists(session, sequences[i])) return LLMC_ERROR_SEQUENCE;
    Sequence& sequence = session.sequence(sequences[i]);
    if (const llmc_status bad = draw_next(session, sequence, sequence.stepped)) return bad;
    session.tokens[i] = sequence.stepped.choice.token;
    stepped[i] = sequences[i];
  }
  for (uint32_t i = 0; i < n; ++i) {
    const Guidance& guidance = session.sequence(sequences[i]).constraints.guidance;
    if (!guidance.on) continue;
    if (count == session.model->batch) return LLMC_ERROR_ARGUMENT;
    session.tokens[count] = session.tokens[i];
    stepped[count++] = guidance.sequence;
  }
  if (session.model->shards > 0) return LLMC_ERROR_SHARD;
  return append_each(session, stepped, count, {session.tokens, nullptr});
}

}  // namespace

bool guides_another(llmc_session& session, uint32_t sequence, uint32_t but) {
  for (uint32_t i = 0; i < session.model->sequences; ++i) {
    const Sequence& other = session.sequence(i);
    if (i != but && other.alive && other.constraints.guidance.on &&
        other.constraints.guidance.sequence == sequence)
      return true;
  }
  return false;
}

llmc_status step_each(llmc_session& session, const uint32_t* sequences, uint32_t n,
                      int32_t* tokens) {
  const llmc_status status = draw_and_append(session, sequences, n);
  for (uint32_t i = 0; i < n && exists(session, sequences[i]); ++i)
    session.sequence(sequences[i]).stepped.valid = false;
  if (status != LLMC_OK) return status;
  for (uint32_t i = 0; i < n; ++i) tokens[i] = session.tokens[i];
  return LLMC_OK;
}

void clear_state(const llmc_session& session, Sequence& sequence) {
  if (sequence.state == nullptr) return;
  __builtin_memset(sequence.state, 0, session.model->state_bytes);
  sequence.state_tokens = 0;
}

void truncate(llmc_session& session, Sequence& sequence, uint32_t position) {
  session.cache.truncate(sequence.cached, position);
  if (sequence.state_tokens > position) clear_state(session, sequence);
}

void begin(llmc_session& session, Sequence& sequence) {
  const llmc_model& model = *session.model;
  const uint32_t tokens = prompt_tokens(session);
  session.cache.adopt(sequence.cached, model.prefix_blocks, tokens);
  clear_state(session, sequence);
  sequence.logits.generation = 0;
  sequence.drawn = {};
  sequence.stepped = {};
  sequence.lookup = {.limit = 1, .backoff = 0, .wait = 0};
  sequence.best = kNoToken;
  sequence.has_row = tokens > 0 && model.prefix_row != nullptr;
  if (sequence.has_row) {
    __builtin_memcpy(sequence.last_row, model.prefix_row, uint64_t{model.hidden} * sizeof(float));
  }
}

void open_sequence(llmc_session& session, Sequence& sequence) {
  sequence.sampling = session.config.sampling;
  sequence.constraints = {};
  sequence.alive = true;
  attend_to(session, sequence, session.model->sources == 1 ? 0 : kNoSource);
  begin(session, sequence);
}

}  // namespace llmc::core

extern "C" {

llmc_status llmc_select(llmc_session* session, uint32_t sequence) {
  if (session == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  if (!llmc::core::exists(*session, sequence)) return LLMC_ERROR_SEQUENCE;
  if (sequence != session->current) session->last_chunk = 0;
  session->current = sequence;
  return LLMC_OK;
}

uint32_t llmc_selected(const llmc_session* session) {
  return session == nullptr ? 0 : session->current;
}

llmc_status llmc_new_sequence(llmc_session* session, uint32_t* sequence) {
  if (session == nullptr || sequence == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  const uint32_t number = llmc::core::free_number(*session);
  if (number == session->model->sequences) return LLMC_ERROR_SEQUENCE;
  llmc::core::open_sequence(*session, session->sequence(number));
  *sequence = number;
  return LLMC_OK;
}

llmc_status llmc_fork(llmc_session* session, uint32_t from, uint32_t* to) {
  if (session == nullptr || to == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  if (!llmc::core::exists(*session, from)) return LLMC_ERROR_SEQUENCE;
  const uint32_t number = llmc::core::free_number(*session);
  if (number == session->model->sequences) return LLMC_ERROR_SEQUENCE;
  const Sequence& original = session->sequence(from);
  Sequence& copy = session->sequence(number);
  session->cache.share(original.cached, copy.cached);
  if (original.state != nullptr)
    __builtin_memcpy(copy.state, original.state, session->model->state_bytes);
  copy.state_tokens = original.state_tokens;
  llmc::core::attend_to(*session, copy, original.source);
  copy.has_row = original.has_row;
  copy.best = original.best;
  if (original.has_row) {
    __builtin_memcpy(copy.last_row, original.last_row,
                     uint64_t{session->model->hidden} * sizeof(float));
  }
  copy.logits = original.logits;
  copy.sampling = original.sampling;
  copy.constraints = original.constraints;
  copy.constraints.guidance = {};  // a guide guides only one sequence
  copy.drawn = original.drawn;
  copy.stepped = {};
  copy.lookup = original.lookup;
  copy.alive = true;
  *to = number;
  return LLMC_OK;
}

llmc_status llmc_release(llmc_session* session, uint32_t sequence) {
  if (session == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  if (!llmc::core::exists(*session, sequence)) return LLMC_ERROR_SEQUENCE;
  if (sequence == session->current || llmc::core::guides_another(*session, sequence, sequence))
    return LLMC_ERROR_ARGUMENT;
  Sequence& gone = session->sequence(sequence);
  llmc::core::truncate(*session, gone, 0);
  llmc::core::leave_source(*session, gone);
  gone.has_row = false;
  gone.best = llmc::core::kNoToken;
  gone.logits.generation = 0;
  gone.alive = false;
  return LLMC_OK;
}

llmc_status llmc_reset(llmc_session* session) {
  if (const llmc_status bad = llmc_rewind(session, 0)) return bad;
  llmc::core::begin(*session, session->selected());
  return LLMC_OK;
}

llmc_status llmc_slide(llmc_session* session, size_t keep_first, size_t drop) {
  if (session == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  const uint32_t position = session->selected().cached.position;
  if (keep_first > position || drop > position - keep_first) return LLMC_ERROR_POSITION;
  if (drop == 0) return LLMC_OK;
  const ReentrancyGuard guard(*session);
  return llmc::core::slide(*session, static_cast<uint32_t>(keep_first),
                           static_cast<uint32_t>(drop));
}

llmc_status llmc_append_batch(llmc_session* session, const uint32_t* sequences, size_t n,
                              const int32_t* tokens) {
  if (session == nullptr || ((sequences == nullptr || tokens == nullptr) && n > 0))
    return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  if (n > session->model->batch) return LLMC_ERROR_ARGUMENT;
  if (session->model->shards > 0 && n > 0) return LLMC_ERROR_SHARD;
  const ReentrancyGuard guard(*session);
  return llmc::core::append_each(*session, sequences, static_cast<uint32_t>(n), {tokens, nullptr});
}

llmc_status llmc_step_batch(llmc_session* session, const uint32_t* sequences, size_t n,
                            int32_t* tokens) {
  if (session == nullptr || ((sequences == nullptr || tokens == nullptr) && n > 0))
    return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  if (n > session->model->batch) return LLMC_ERROR_ARGUMENT;
  const ReentrancyGuard guard(*session);
  return llmc::core::step_each(*session, sequences, static_cast<uint32_t>(n), tokens);
}

size_t llmc_sequence_limit(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->sequences;
}
size_t llmc_pool_blocks(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->pool_blocks;
}
size_t llmc_free_blocks(const llmc_session* session) {
  return session == nullptr ? 0 : session->cache.free_blocks();
}

}  // extern "C"

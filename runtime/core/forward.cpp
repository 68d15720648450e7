#include "forward.h"

#include "config.h"
#include "logits.h"
#include "message.h"

namespace llmc::core {

llmc_segment segment_at(const llmc_session& session, const Sequence& sequence, uint32_t row,
                        uint32_t count, uint32_t position, uint32_t last) {
  llmc_segment segment{.blocks = sequence.cached.blocks,
                       .row = row,
                       .rows = count,
                       .position = position,
                       .last = last,
                       .state = sequence.state,
                       .source = nullptr,
                       .source_rows = 0,
                       .rotary_position = position + static_cast<uint32_t>(sequence.cached.shift)};
  if (const Source* const source = source_of(session, sequence)) {
    segment.source = session.source_state(sequence.source);
    segment.source_rows = source->rows;
  }
  return segment;
}

void note_shifts(const llmc_session& session, const CachedTokens& cached, const Input& input,
                 size_t ran, llmc_segment& segment) {
  const uint32_t axes = session.model->position_axes;
  if (axes == 0 || input.embeddings == nullptr) return;
  if (input.positions != nullptr) segment.rotary_position = input.first_position;
  // After each embedding, text continues after the largest position so far.
  uint32_t next = cached.position + static_cast<uint32_t>(cached.shift);
  for (uint32_t i = 0; i < segment.rows; ++i) {
    if (input.positions == nullptr) ++next;
    for (uint32_t axis = 0; axis < axes && input.positions != nullptr; ++axis) {
      const auto position = static_cast<uint32_t>(input.positions[(ran + i) * axes + axis]);
      if (input.first_position + position >= next) next = input.first_position + position + 1;
    }
    const uint32_t place = cached.position + i;
    session.cache.note_shift(cached, place, static_cast<int32_t>(next - place - 1));
  }
}

void commit(const llmc_session& session, Sequence& sequence, uint32_t count) {
  session.cache.commit(sequence.cached, count);
  if (sequence.state != nullptr) sequence.state_tokens = sequence.cached.position;
}

bool has_source(const llmc_session& session, const Sequence& sequence) {
  return session.model->sources == 0 || source_of(session, sequence) != nullptr;
}

llmc_status pool_full(const llmc_session& session) {
  Message()
      .text("the cache's pool has no blocks for these tokens: ")
      .number(session.cache.free_blocks())
      .text(" of ")
      .number(session.model->pool_blocks)
      .text(" are free")
      .send(session.config, LLMC_LOG_ERROR);
  return LLMC_ERROR_POOL_FULL;
}

void forward(llmc_session& session, const Input& input, uint32_t count, uint32_t segments) {
  session.run.tokens = input.tokens;
  session.run.embeddings = input.embeddings;
  session.run.positions = input.positions;
  session.run.count = count;
  session.run.segment_count = segments;
  session.last_chunk = 0;
  session.row_slot.generation = 0;
  session.model->forward(&session.run);
  // Do not keep pointers to the caller's memory after the call.
  session.run.tokens = nullptr;
  session.run.embeddings = nullptr;
  session.run.positions = nullptr;
}

llmc_segment segment_of(const llmc_session& session, const Sequence& sequence, uint32_t row,
                        const int32_t* tokens, uint32_t count, size_t total, float mu) {
  const CachedTokens& cached = sequence.cached;
  session.cache.note(cached, tokens, count, mu);
  const uint32_t last = cached.position + static_cast<uint32_t>(total) - 1;
  return segment_at(session, sequence, row, count, cached.position, last);
}

namespace {

/// Returns whether a device computes regions of `n` tokens. A single token is computed on the CPU
/// alone, because a region of one row is not worth sending.
bool uses_device(const llmc_session& session, size_t n) {
  return session.config.device != nullptr && !session.device_failed && n > 1;
}

/// Fails if a token is not valid.
llmc_status check_input(const llmc_session& session, const Input& input, size_t n) {
  if (input.embeddings != nullptr) return LLMC_OK;
  const uint32_t vocab = session.model->vocab;
  for (size_t i = 0; i < n; ++i) {
    const int32_t token = input.tokens[i];
    if (!is_token(token, vocab)) return refuse_token(session.config, token, vocab, &i);
  }
  return LLMC_OK;
}

/// Returns mirostat's state after `token` and any further tokens are appended. Only a token that
/// was drawn changes the state, and only the first of the tokens can have been drawn.
float next_mu(const llmc_session& session, const Sequence& sequence, int32_t token) {
  const DrawnToken& drawn = sequence.stepped.valid ? sequence.stepped : sequence.drawn;
  const bool counts =
      drawn.valid && drawn.position == sequence.cached.position && drawn.choice.token == token;
  return counts ? drawn.choice.mu : session.cache.mu(sequence.cached);
}

/// Brings the recurrent states up to the sequence's last token: runs the tokens that they do not
/// contain again. (A rewind clears the states, because tokens cannot be removed from them.) This
/// rewrites the same bits to the cache. Fails with LLMC_ERROR_EMBEDDINGS if these tokens include
/// embeddings. Fails with LLMC_ERROR_CANCELLED between two chunks if `cancellable` is set; the
/// states then contain the first tokens, and the next call continues after them.
llmc_status replay(llmc_session& session, Sequence& sequence, bool cancellable) {
  const CachedTokens& cached = sequence.cached;
  if (sequence.state == nullptr) return LLMC_OK;
  const TokenHistory history = session.cache.history(cached);
  if (session.cache.has_embeddings(cached, sequence.state_tokens, cached.position))
    return LLMC_ERROR_EMBEDDINGS;
  // Use the end of session.tokens, because the tokens to append may be at its start.
  while (sequence.state_tokens < cached.position) {
    if (cancellable && is_cancelled(session)) return LLMC_ERROR_CANCELLED;
    const uint32_t first = sequence.state_tokens, left = cached.position - first;
    const uint32_t count = left < session.chunk ? left : session.chunk;
    int32_t* const tokens = session.tokens + session.model->ctx + session.model->batch - count;
    for (uint32_t i = 0; i < count; ++i) tokens[i] = history[first + i];
    session.segments[0] = segment_at(session, sequence, 0, count, first, cached.position - 1);
    forward(session, {tokens, nullptr}, count, 1);
    sequence.state_tokens = first + count;
  }
  return LLMC_OK;
}

/// The sequences of one call. status() is an error if one of them does not exist or occurs twice.
class BatchSelection {
 public:
  BatchSelection(llmc_session& session, const uint32_t* sequences, uint32_t n)
      : session_(session), sequences_(sequences) {
    for (; count_ < n; ++count_) {
      const uint32_t id = sequences[count_];
      if (!exists(session, id)) {
        status_ = LLMC_ERROR_SEQUENCE;
      } else if (session.sequence(id).in_batch) {
        status_ = LLMC_ERROR_ARGUMENT;
      }
      if (status_ != LLMC_OK) return;
      session.sequence(id).in_batch = true;
    }
  }
  ~BatchSelection() {
    while (count_ > 0) session_.sequence(sequences_[--count_]).in_batch = false;
  }
  BatchSelection(const BatchSelection&) = delete;
  BatchSelection& operator=(const BatchSelection&) = delete;

  llmc_status status() const { return status_; }

 private:
  llmc_session& session_;
  const uint32_t* sequences_;
  uint32_t count_ = 0;
  llmc_status status_ = LLMC_OK;
};

/// Runs the next chunk of a sequence's reserved tokens, which are tokens `ran` to `n` - 1 of
/// `input`. Advances the sequence's position when all workers are done. Returns the size of the
/// chunk.
// Not inlined, so that its two callers do not have a copy each.
__attribute__((noinline)) uint32_t run_chunk(llmc_session& session, Sequence& sequence,
                                             const Input& input, size_t ran, size_t n, float mu) {
  const size_t left = n - ran;
  const uint32_t count = left < session.chunk ? static_cast<uint32_t>(left) : session.chunk;
  Input next = input;
  if (input.embeddings == nullptr) {
    next.tokens += ran;
  } else {
    next.embeddings += ran * session.model->embedding_width;
    if (input.positions != nullptr) next.positions += ran * session.model->position_axes;
    static_assert(kNoToken == -1);
    __builtin_memset(session.tokens, 0xFF, count * sizeof *session.tokens);
    next.tokens = session.tokens;
  }
  session.segments[0] = segment_of(session, sequence, 0, next.tokens, count, left, mu);
  note_shifts(session, sequence.cached, input, ran, session.segments[0]);
  forward(session, next, count, 1);
  commit(session, sequence, count);
  session.last_chunk = count;
  return count;
}

/// Updates the sequence and the session after all tokens of a call have been run.
void finish(llmc_session& session, Sequence& sequence) {
  KvCache::finish(sequence.cached);
  const uint32_t last = session.last_chunk - 1;
  keep_row(session, sequence, last);
  if (can_skip_logits(session, sequence)) return;
  const uint32_t slot = own_slot(session, sequence);
  run_head(session, hidden_rows(session, last), 1, slot);
  keep_logits(session, sequence, slot);
}

/// Moves the tokens after the first `keep + drop` down by `drop` positions and runs them again
/// there. Also reserves blocks for `more` tokens after them. This cannot be undone, and therefore
/// not be cancelled. All moved tokens get mirostat's state of the last one. Fails with
/// LLMC_ERROR_EMBEDDINGS if an embedding would be run again.
llmc_status shift_context(llmc_session& session, Sequence& sequence, uint32_t keep, uint32_t drop,
                          uint32_t more) {
  CachedTokens& cached = sequence.cached;
  GrammarHook& grammar = sequence.constraints.grammar;
  // The grammar's state cannot be computed without the first tokens of its text.
  if (grammar.grammar != nullptr && grammar.from < keep + drop) return LLMC_ERROR_CONTEXT_FULL;
  const TokenHistory history = session.cache.history(cached);
  const bool again = sequence.state_tokens > keep;  // the kept tokens are also run again
  const uint32_t first_again = sequence.state == nullptr ? keep : again ? 0 : sequence.state_tokens;
  if (session.cache.has_embeddings(cached, keep + drop, cached.position) ||
      session.cache.has_embeddings(cached, first_again, keep))
    return LLMC_ERROR_EMBEDDINGS;
  const uint32_t rest = history.count() - keep - drop;
  const float mu = session.cache.mu(cached);
  for (uint32_t i = 0; i < rest; ++i) session.tokens[i] = history[keep + drop + i];
  if (!session.cache.replace(cached, keep, keep + rest + more)) return pool_full(session);
  if (again) clear_state(session, sequence);
  if (const llmc_status bad = replay(session, sequence, false)) return bad;
  for (uint32_t done = 0; done < rest;)
    done += run_chunk(session, sequence, {session.tokens, nullptr}, done, rest, mu);
  if (grammar.grammar != nullptr) grammar.from -= drop;
  return LLMC_OK;
}

/// Makes room for `n` tokens by sliding the context, if the configuration allows this, and reserves
/// blocks for them. Requires that `n` is more than the free room.
llmc_status make_room(llmc_session& session, Sequence& sequence, size_t n) {
  const llmc_config& config = session.config;
  const uint32_t position = sequence.cached.position;
  if (config.full_context != LLMC_FULL_SLIDE) return LLMC_ERROR_CONTEXT_FULL;
  const uint32_t keep = config.keep_first < position ? config.keep_first : position;
  const uint32_t most = position - keep;
  const size_t least = n - session.cache.room(sequence.cached);
  if (least > most) return LLMC_ERROR_CONTEXT_FULL;
  uint32_t drop = config.slide_tokens != 0 ? config.slide_tokens : (most + 1) / 2;
  if (drop > most) drop = most;
  if (drop < least) drop = static_cast<uint32_t>(least);
  if (is_cancelled(session)) return LLMC_ERROR_CANCELLED;
  return shift_context(session, sequence, keep, drop, static_cast<uint32_t>(n));
}

}  // namespace

llmc_status slide(llmc_session& session, uint32_t keep, uint32_t drop) {
  if (session.model->shards > 0) return LLMC_ERROR_SHARD;
  if (!float_mode_is_default()) return LLMC_ERROR_FLOAT_MODE;
  if (is_cancelled(session)) return LLMC_ERROR_CANCELLED;
  Sequence& sequence = session.selected();
  const bool some_follow = drop < sequence.cached.position - keep;
  if (const llmc_status bad = shift_context(session, sequence, keep, drop, 0)) return bad;
  if (some_follow) {
    finish(session, sequence);
    return LLMC_OK;
  }
  session.last_chunk = 0;
  drop_row(sequence);
  return LLMC_OK;
}

llmc_status append_all(llmc_session& session, Input input, size_t n, size_t* done) {
  const auto tell = [&](size_t count) {
    if (done != nullptr) *done = count;
  };
  tell(0);
  if (n == 0) return LLMC_OK;
  if (session.model->shards > 0) return LLMC_ERROR_SHARD;
  if (!float_mode_is_default()) return LLMC_ERROR_FLOAT_MODE;
  Sequence& sequence = session.selected();
  if (!has_source(session, sequence)) return LLMC_ERROR_SOURCE;
  if (const llmc_status bad = check_input(session, input, n)) return bad;
  CachedTokens& cached = sequence.cached;
  const bool slides = n > session.cache.room(cached);
  if (!slides) {
    if (const llmc_status bad = replay(session, sequence, true)) return bad;
  }
  const uint32_t start = cached.position;
  const float mu =
      next_mu(session, sequence, input.embeddings != nullptr ? kNoToken : input.tokens[0]);
  // A rollback needs the recurrent states at `start`, which cannot be computed again if embeddings
  // precede it.
  const bool rolls_back = session.config.cancel == nullptr || sequence.state == nullptr ||
                          !session.cache.has_embeddings(cached, 0, start);
  if (slides) {
    if (const llmc_status bad = make_room(session, sequence, n)) return bad;
  } else if (!session.cache.reserve(cached, static_cast<uint32_t>(n))) {
    return pool_full(session);
  }
  input.first_position = cached.position + static_cast<uint32_t>(cached.shift);
  ChunkCall call{.sequence = sequence,
                 .input = input,
                 .n = n,
                 .mu = mu,
                 .cancellable = !slides,
                 .rolls_back = rolls_back,
                 .done = done};
  const auto next = [&] { return run_chunk(session, sequence, input, call.ran, n, mu); };
  const llmc_status status = uses_device(session, n) ? session.model->run_in_flight(&session, &call)
                                                     : for_each_chunk(session, call, next);
  if (status != LLMC_OK) {
    // The last row and its logits are still the same as before the call.
    session.cache.abandon(cached, start);
    if (sequence.state_tokens > start) clear_state(session, sequence);
    if (call.ran > 0) session.last_chunk = 0;
    tell(0);
    return status;
  }
  finish(session, sequence);
  return LLMC_OK;
}

llmc_status append_chunk(llmc_session& session, const Input& input, uint32_t n, size_t more) {
  if (!float_mode_is_default()) return LLMC_ERROR_FLOAT_MODE;
  if (const llmc_status bad = check_input(session, {input.tokens, nullptr}, n)) return bad;
  Sequence& sequence = session.selected();
  CachedTokens& cached = sequence.cached;
  const uint32_t room = session.cache.room(cached);
  if (n > room || more > room - n) return LLMC_ERROR_CONTEXT_FULL;
  if (is_cancelled(session)) return LLMC_ERROR_CANCELLED;
  const float mu = next_mu(session, sequence, input.tokens[0]);
  if (!session.cache.reserve(cached, n)) return pool_full(session);
  session.segments[0] = segment_of(session, sequence, 0, input.tokens, n, n + more, mu);
  forward(session, input, n, 1);
  commit(session, sequence, n);
  if (session.model->head != nullptr && more == 0) {
    session.last_chunk = n;
    finish(session, sequence);
    return LLMC_OK;
  }
  KvCache::finish(cached);
  drop_row(sequence);
  return LLMC_OK;
}

llmc_status append_each(llmc_session& session, const uint32_t* sequences, uint32_t n,
                        const Input& input) {
  if (n == 0) return LLMC_OK;
  const int32_t* const tokens = input.tokens;
  if (!float_mode_is_default()) return LLMC_ERROR_FLOAT_MODE;
  const BatchSelection selection(session, sequences, n);
  if (selection.status() != LLMC_OK) return selection.status();
  for (uint32_t i = 0; i < n; ++i)
    if (!has_source(session, session.sequence(sequences[i]))) return LLMC_ERROR_SOURCE;
  if (const llmc_status bad = check_input(session, {tokens, nullptr}, n)) return bad;
  for (uint32_t i = 0; i < n; ++i)
    if (session.cache.room(session.sequence(sequences[i]).cached) == 0)
      return LLMC_ERROR_CONTEXT_FULL;
  if (is_cancelled(session)) return LLMC_ERROR_CANCELLED;
  for (uint32_t i = 0; i < n; ++i)
    if (const llmc_status bad = replay(session, session.sequence(sequences[i]), true)) return bad;
  for (uint32_t i = 0; i < n; ++i) {
    if (session.cache.reserve(session.sequence(sequences[i]).cached, 1)) continue;
    while (i > 0) {
      CachedTokens& cached = session.sequence(sequences[--i]).cached;
      session.cache.abandon(cached, cached.position);
    }
    return pool_full(session);
  }
  for (uint32_t i = 0; i < n; ++i) {
    const Sequence& sequence = session.sequence(sequences[i]);
    const float mu = next_mu(session, sequence, tokens[i]);
    session.segments[i] = segment_of(session, sequence, i, tokens + i, 1, 1, mu);
  }
  forward(session, input, n, n);
  const bool has_head = session.model->head != nullptr;
  if (has_head) run_head(session, hidden_rows(session, 0), n, 0);
  for (uint32_t i = 0; i < n; ++i) {
    Sequence& sequence = session.sequence(sequences[i]);
    commit(session, sequence, 1);
    KvCache::finish(sequence.cached);
    if (has_head) {
      keep_row(session, sequence, i);
      keep_logits(session, sequence, i);
    } else {
      drop_row(sequence);
    }
  }
  return LLMC_OK;
}

}  // namespace llmc::core

#include "llmc/speculation.h"

#include "config.h"
#include "forward.h"
#include "logits.h"
#include "message.h"

namespace llmc::core {
namespace {

/// Minimum length of a match that yields a draft. Single tokens and pairs repeat everywhere.
constexpr uint32_t kMinMatch = 3;
/// Maximum length up to which matches are compared; longer ones are not preferred.
constexpr uint32_t kMaxMatch = 16;
/// Maximum number of steps without a draft after a rejected one.
constexpr uint32_t kMaxWait = 32;

/// Tokens that end a text.
struct StopIds {
  const int32_t* ids;
  size_t count;

  bool contains(int32_t token) const {
    size_t i = 0;
    while (i < count && ids[i] != token) ++i;
    return i < count;
  }
};

/// Returns how many tokens, at most `n`, can be appended in one pass. Any number of the last ones
/// must be droppable, and all must have the same bits as when they are appended alone.
uint32_t max_chain(const llmc_session& session, const Sequence& sequence, size_t n) {
  if (session.model->shards > 0 || session.model->by_length != 0 || sequence.state != nullptr ||
      sequence.constraints.guidance.on || mirostat_on(sequence.sampling))
    return 1;
  const uint32_t room = session.cache.room(sequence.cached);
  const uint32_t most = room < session.chunk ? room : session.chunk;
  if (most <= 1) return 1;
  return n < most ? static_cast<uint32_t>(n) : most;
}

/// Result of append_chain().
struct Chain {
  size_t accepted;  // number of tokens that were appended
  bool rejected;    // a drafted token was not chosen
  bool stopped;     // the token chosen after them is a stop token
};

/// Runs `n` tokens in one forward pass: chain[0], which is the token of sequence.stepped, and a
/// draft of the tokens after it. Appends chain[0] and the drafted tokens before the first one that
/// is not chosen. If the pool has too few blocks, runs only chain[0].
llmc_status append_chain(llmc_session& session, Sequence& sequence, const int32_t* chain,
                         uint32_t n, const StopIds& stops, Chain* result) {
  CachedTokens& cached = sequence.cached;
  if (!has_source(session, sequence)) return LLMC_ERROR_SOURCE;
  if (is_cancelled(session)) return LLMC_ERROR_CANCELLED;
  if (!session.cache.reserve(cached, n)) {
    n = 1;
    if (!session.cache.reserve(cached, n)) return pool_full(session);
  }
  const float mu = session.cache.mu(cached);
  session.segments[0] = segment_of(session, sequence, 0, chain, n, n, mu);
  forward(session, {chain, nullptr}, n, 1);
  const bool together = n > 1 && n <= session.model->batch;
  if (together) run_rows(session, 0, n);
  uint32_t done = 0;
  for (;;) {
    commit(session, sequence, 1);
    keep_row(session, sequence, done);
    if (together) {
      keep_logits(session, sequence, done);
    } else if (done + 1 < n || !can_skip_logits(session, sequence)) {
      const uint32_t slot = own_slot(session, sequence);
      run_head(session, hidden_rows(session, done), 1, slot);
      keep_logits(session, sequence, slot);
    }
    if (++done == n || draw_next(session, sequence, sequence.stepped) != LLMC_OK) break;
    const int32_t token = sequence.stepped.choice.token;
    result->stopped = stops.contains(token);
    result->rejected = token != chain[done];
    if (result->stopped || result->rejected) break;
  }
  KvCache::finish(cached);
  session.cache.truncate(cached, cached.position);
  session.last_chunk = done;
  result->accepted = done;
  return LLMC_OK;
}

/// Chooses the next token, and appends it with the drafted tokens that are chosen as well.
/// draft(chain, n) writes up to n - 1 tokens that probably follow chain[0] to chain[1] and on, and
/// returns the number of tokens in `chain`.
template <class Draft>
llmc_status step(llmc_session& session, size_t n, const StopIds& stops, int32_t* tokens,
                 size_t* count, Chain* result, Draft draft) {
  Sequence& sequence = session.selected();
  const ReentrancyGuard guard(session);
  llmc_status status = draw_next(session, sequence, sequence.stepped);
  if (status != LLMC_OK) return status;
  const int32_t next = sequence.stepped.choice.token;
  tokens[0] = next;
  const uint32_t most = max_chain(session, sequence, n);
  if (stops.contains(next)) {
    *count = 1;
  } else if (sequence.constraints.guidance.on) {
    status = step_each(session, &session.current, 1, tokens);
    *count = status == LLMC_OK;
  } else if (most <= 1) {
    status = append_all(session, {&next, nullptr}, 1, nullptr);
    *count = status == LLMC_OK;
  } else {
    int32_t* const chain = session.tokens;
    chain[0] = next;
    status = append_chain(session, sequence, chain, draft(chain, most), stops, result);
    for (size_t i = 0; i < result->accepted; ++i) tokens[i] = chain[i];
    *count = result->accepted;
    if (result->stopped) tokens[(*count)++] = sequence.stepped.choice.token;
  }
  sequence.stepped.valid = false;
  return status;
}

/// Finds the longest, among equals the latest, earlier occurrence of the sequence's last tokens
/// followed by chain[0]. Writes the tokens after it to chain[1] and on, at most n - 1. Returns the
/// number of tokens in `chain`.
uint32_t look_up(const TokenHistory& history, int32_t* chain, uint32_t n) {
  uint32_t longest = kMinMatch - 1, from = 0;
  // The last token of an occurrence is history[end - 1].
  for (uint32_t end = history.count(); end >= kMinMatch; --end) {
    if (history[end - 1] != chain[0]) continue;
    uint32_t length = 1;
    while (length < kMaxMatch && length < end &&
           history[end - 1 - length] == history[history.count() - length])
      ++length;
    if (length <= longest) continue;
    longest = length;
    from = end;
    if (length == kMaxMatch) break;
  }
  if (longest < kMinMatch) return 1;
  uint32_t length = 1;
  // What follows the last token of the sequence is chain[0], and then the draft itself.
  for (; length < n; ++length) {
    const uint32_t at = from + length - 1;
    const int32_t token = at < history.count() ? history[at] : chain[at - history.count()];
    if (token == kNoToken) break;
    chain[length] = token;
  }
  return length;
}

/// Adapts the length of drafts after a draft of `drafted` tokens. A rejected token costs the time
/// of a row, and most texts do not repeat themselves.
void learn(LookupState& state, uint32_t drafted, const Chain& chain) {
  const auto accepted = static_cast<uint32_t>(chain.accepted) - 1;
  if (chain.rejected) {
    state.limit = accepted == 0 ? 1 : accepted;
  } else if (accepted == drafted && drafted >= state.limit && state.limit <= UINT32_MAX / 2) {
    state.limit *= 2;  // only after a draft of the full length, which the call must allow
  }
  if (accepted > 0) {
    state.backoff = 0;
  } else if (chain.rejected) {
    state.backoff = state.backoff == 0 ? 1 : 2 * state.backoff;
    if (state.backoff > kMaxWait) state.backoff = kMaxWait;
    state.wait = state.backoff;
  }
}

bool is_list(const void* list, size_t n) {
  return list != nullptr || n == 0;
}

}  // namespace
}  // namespace llmc::core

using llmc::core::LookupState;
using llmc::core::Sequence;
using llmc::core::StopIds;

extern "C" {

llmc_status llmc_step_draft(llmc_session* session, const int32_t* draft, size_t n,
                            const int32_t* stop_ids, size_t stop_count, int32_t* tokens,
                            size_t* count) {
  using namespace llmc::core;
  if (session != nullptr && session->busy) return LLMC_ERROR_BUSY;
  if (count != nullptr) *count = 0;
  if (session == nullptr || tokens == nullptr || count == nullptr || !is_list(draft, n) ||
      !is_list(stop_ids, stop_count))
    return LLMC_ERROR_ARGUMENT;
  for (size_t i = 0; i < n; ++i)
    if (!is_token(draft[i], session->model->vocab))
      return refuse_token(session->config, draft[i], session->model->vocab, &i);
  Chain result{};
  return step(*session, n, {stop_ids, stop_count}, tokens, count, &result,
              [&](int32_t* chain, uint32_t most) {
                if (chain[0] != draft[0]) return uint32_t{1};
                for (uint32_t i = 1; i < most; ++i) chain[i] = draft[i];
                return most;
              });
}

llmc_status llmc_step_lookup(llmc_session* session, size_t n, const int32_t* stop_ids,
                             size_t stop_count, int32_t* tokens, size_t* count) {
  using namespace llmc::core;
  if (session != nullptr && session->busy) return LLMC_ERROR_BUSY;
  if (count != nullptr) *count = 0;
  if (session == nullptr || tokens == nullptr || count == nullptr || n == 0 ||
      !is_list(stop_ids, stop_count))
    return LLMC_ERROR_ARGUMENT;
  Sequence& sequence = session->selected();
  LookupState& state = sequence.lookup;
  uint32_t drafted = 0;
  Chain result{};
  const llmc_status status =
      step(*session, n, {stop_ids, stop_count}, tokens, count, &result,
           [&](int32_t* chain, uint32_t most) {
             if (state.wait > 0) {
               --state.wait;
               return uint32_t{1};
             }
             const uint32_t limit = state.limit < most - 1 ? state.limit + 1 : most;
             const uint32_t length = look_up(session->cache.history(sequence.cached), chain, limit);
             drafted = length - 1;
             return length;
           });
  if (status == LLMC_OK && drafted > 0) learn(state, drafted, result);
  return status;
}

}  // extern "C"

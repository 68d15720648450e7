#pragma once

#include "session.h"

/// Runs tokens and chooses the tokens that follow them. The functions of the C interface check
/// pointers, prevent reentrant calls, and then call these functions.
namespace llmc::core {

/// Returns whether the application cancels the call: calls its cancel callback, if any.
inline bool is_cancelled(const llmc_session& session) {
  return session.config.cancel != nullptr && session.config.cancel(session.config.cancel_user) != 0;
}

/// The tokens that a call appends: ids, or rows of embeddings. In a shard other than the first,
/// both.
struct Input {
  const int32_t* tokens;
  const float* embeddings;  // [n][model->embedding_width], finite (in a shard: not checked);
                            // NULL: the model looks up `tokens`
  /// [n][model->position_axes] positions of the embeddings, relative to the position of the next
  /// token; NULL: consecutive positions, as for text.
  const int32_t* positions = nullptr;
  uint32_t first_position = 0;  // position of the next token, for rotations (RoPE)
};

/// A call that appends tokens in chunks, with one forward pass per chunk. Cache blocks are already
/// reserved.
struct ChunkCall {
  Sequence& sequence;
  const Input& input;
  size_t n;
  float mu;          // mirostat's state after every token of the call
  bool cancellable;  // whether the call may be cancelled before the first chunk
  bool rolls_back;   // whether it may also be cancelled between chunks, because it can be rolled
                     // back
  size_t* done;      // receives the number of committed tokens; may be NULL
  size_t ran = 0;    // number of committed tokens
};
/// Calls next() until all tokens are done; next() runs a chunk, commits it and returns its number
/// of tokens. Returns LLMC_ERROR_CANCELLED if the application cancels the call before a chunk. The
/// caller must then roll back the committed tokens.
template <class Next>
llmc_status for_each_chunk(const llmc_session& session, ChunkCall& call, Next next) {
  while (call.ran < call.n) {
    if (call.cancellable && (call.ran == 0 || call.rolls_back) && is_cancelled(session))
      return LLMC_ERROR_CANCELLED;
    call.ran += next();
    if (call.done != nullptr) *call.done = call.ran;
  }
  return LLMC_OK;
}

/// Returns the segment of rows `row` .. `row` + `count` - 1 for the tokens from `position` on.
/// `last`: position of the last token of the call.
llmc_segment segment_at(const llmc_session& session, const Sequence& sequence, uint32_t row,
                        uint32_t count, uint32_t position, uint32_t last);
/// Stores the shifts (history.h) of a chunk of embeddings in the cache, after KvCache::note() has
/// stored their ids. The chunk begins with row `ran` of `input`. If `input` has positions, also
/// sets the base of the segment's positions. Has no effect on token ids and on models without
/// position axes.
void note_shifts(const llmc_session& session, const CachedTokens& cached, const Input& input,
                 size_t ran, llmc_segment& segment);
/// Stores the ids of `count` tokens in the cache, and `mu` as mirostat's state after each of them.
/// Returns their segment. `total`: number of tokens from the first of these to the last one of the
/// call.
llmc_segment segment_of(const llmc_session& session, const Sequence& sequence, uint32_t row,
                        const int32_t* tokens, uint32_t count, size_t total, float mu);
/// Runs one forward pass over `count` tokens, which are reserved or are run again, and which the
/// session's first `segments` segments describe. Embeddings have the id kNoToken, except in a
/// shard.
void forward(llmc_session& session, const Input& input, uint32_t count, uint32_t segments);
/// Increases the sequence's position by tokens that have been run. Its recurrent states then
/// contain these tokens.
void commit(const llmc_session& session, Sequence& sequence, uint32_t count);

/// Returns true for a decoder. For an encoder-decoder, returns whether the sequence has an encoded
/// source.
bool has_source(const llmc_session& session, const Sequence& sequence);
/// Logs that the pool is full and returns LLMC_ERROR_POOL_FULL.
llmc_status pool_full(const llmc_session& session);

/// Appends `n` tokens to the selected sequence, chunk by chunk. Writes `*done` (may be NULL) but
/// never reads it, because a callback may write to it. If the context is full, fails or slides it
/// (llmc_config.full_context). On an error nothing has changed and `*done` is 0.
llmc_status append_all(llmc_session& session, Input input, size_t n, size_t* done);

/// Appends a chunk of tokens to the selected sequence of a shard: `input` has their ids and, except
/// in the first shard, their rows from the previous shard. `more` tokens of the same prompt follow.
/// If `more` is 0, a shard with a head then has logits. On an error nothing has changed.
llmc_status append_chunk(llmc_session& session, const Input& input, uint32_t n, size_t more);

/// Drops `drop` tokens of the selected sequence after its first `keep` tokens, and runs the tokens
/// after them again at their new positions. If no tokens follow, the sequence has no logits.
llmc_status slide(llmc_session& session, uint32_t keep, uint32_t drop);

/// Appends one token to each of `n` different sequences, in one forward pass. `input`: as in
/// append_chunk().
llmc_status append_each(llmc_session& session, const uint32_t* sequences, uint32_t n,
                        const Input& input);

/// Chooses a token for each of `n` different sequences, and appends it to the sequence and to its
/// guide, if any, in one forward pass.
llmc_status step_each(llmc_session& session, const uint32_t* sequences, uint32_t n,
                      int32_t* tokens);

/// Writes the `n` possible next tokens of a sequence with the highest log probability plus bias, in
/// descending order. Sets *count to their number, which may be smaller than `n`.
llmc_status biased_candidates(llmc_session& session, Sequence& sequence, llmc_candidate* candidates,
                              size_t n, size_t* count);

/// Chooses the sequence's next token and stores it in `drawn`, without appending it.
llmc_status draw_next(llmc_session& session, Sequence& sequence, DrawnToken& drawn);

}  // namespace llmc::core

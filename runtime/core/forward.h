#pragma once

#include "session.h"

/// Runs tokens and reads their results. The functions of llmc.h check pointers, prevent reentrant
/// calls, and then call these functions.
namespace llmc::core {

/// Asks the application whether to cancel the call.
inline bool is_cancelled(const llmc_session& session) {
  return session.config.cancel != nullptr && session.config.cancel(session.config.cancel_user) != 0;
}

/// What a call appends: token ids, or rows of embeddings.
struct Input {
  const int32_t* tokens;
  const float* embeddings;  // [n][model->embedding_width], finite; NULL: `tokens`
  /// [n][model->position_axes] positions of embeddings, counted from the position of the next
  /// token; NULL: those of text.
  const int32_t* positions = nullptr;
  uint32_t first_position = 0;  // of the next token, for rotations
};

/// The forward passes of a call that appends tokens, for which blocks are reserved.
struct ChunkCall {
  Sequence& sequence;
  const Input& input;
  size_t n;
  float mu;          // mirostat's state after each token
  bool cancellable;  // before the first chunk
  bool rolls_back;   // whether the call is also cancellable between chunks
  size_t* done;      // as in append_all
  size_t ran = 0;    // tokens that are committed
};
/// Calls next(), which runs the next chunk, commits it and returns its number of tokens, until all
/// tokens are done. Returns LLMC_ERROR_CANCELLED if the application cancels the call between two
/// chunks; the tokens remain committed.
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
/// Notes the shifts of the next tokens, whose ids are noted: embeddings of `input` from `ran` on.
/// Sets the position of their segment, unless it is that of text. Has no effect on tokens, and on
/// models without position axes.
void note_shifts(const llmc_session& session, const CachedTokens& cached, const Input& input,
                 size_t ran, llmc_segment& segment);
/// Notes tokens in the cache and returns their segment. `total`: number of tokens of the call,
/// including these `count` ones and those after them.
llmc_segment segment_of(const llmc_session& session, const Sequence& sequence, uint32_t row,
                        const int32_t* tokens, uint32_t count, size_t total, float mu);
/// Runs reserved tokens, which the first `segments` segments of the session describe. With
/// embeddings all tokens are kNoToken.
void forward(llmc_session& session, const Input& input, uint32_t count, uint32_t segments);
/// Increases the sequence's position by tokens that have been run.
void commit(const llmc_session& session, Sequence& sequence, uint32_t count);

/// Returns whether the model is a decoder, or the sequence has a source.
bool has_source(const llmc_session& session, const Sequence& sequence);
/// Logs that the pool is full and returns this status.
llmc_status pool_full(const llmc_session& session);

/// Appends `n` tokens to the selected sequence, chunk by chunk. Writes `*done` (may be NULL) but
/// never reads it, because a callback may write to it. If the context is full, does what the
/// configuration specifies. On an error nothing has changed and `*done` is 0.
llmc_status append_all(llmc_session& session, Input input, size_t n, size_t* done);

/// Appends a chunk of tokens to the selected sequence of a shard: `input` has their ids, and,
/// except in the first shard, their rows. `more` tokens of the same prompt follow. If there are
/// none, computes logits in a shard with a head. On an error nothing has changed.
llmc_status append_chunk(llmc_session& session, const Input& input, uint32_t n, size_t more);

/// Drops `drop` tokens of the selected sequence after its first `keep` tokens, and runs the tokens
/// after them again at their new positions. If there are none, the sequence has no logits.
llmc_status slide(llmc_session& session, uint32_t keep, uint32_t drop);

/// Appends one token to each of `n` different sequences, in one forward pass. `input` is that of
/// append_chunk().
llmc_status append_each(llmc_session& session, const uint32_t* sequences, uint32_t n,
                        const Input& input);

/// Chooses a token for each of `n` different sequences, and appends it to the sequence and to its
/// guide, in one forward pass.
llmc_status step_each(llmc_session& session, const uint32_t* sequences, uint32_t n,
                      int32_t* tokens);

/// Writes the `n` next tokens of a sequence with the highest log probability plus bias, in
/// descending order, and their number to *count.
llmc_status biased_candidates(llmc_session& session, Sequence& sequence, llmc_candidate* candidates,
                              size_t n, size_t* count);

/// Chooses the sequence's next token and stores it in `drawn`, without appending it.
llmc_status draw_next(llmc_session& session, Sequence& sequence, DrawnToken& drawn);

}  // namespace llmc::core

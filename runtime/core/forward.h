#pragma once

#include "session.h"

/// Runs tokens and reads their results. These functions are below those of llmc.h, which check
/// pointers and prevent reentrant calls.
namespace llmc::core {

/// Appends to the selected sequence, chunk by chunk. Updates `*done` (may be NULL) but never reads
/// it, because a callback may write to it. When the context is full, does what the configuration
/// says. On an error nothing has changed and `*done` is 0.
llmc_status append_all(llmc_session& session, const int32_t* tokens, size_t n, size_t* done);

/// Drops `drop` tokens of the selected sequence after its first `keep` and runs the following
/// tokens again at their new positions. If none follow, there are no logits.
llmc_status slide(llmc_session& session, uint32_t keep, uint32_t drop);

/// Appends one token to each of `n` different sequences, in one forward.
llmc_status append_each(llmc_session& session, const uint32_t* sequences, uint32_t n,
                        const int32_t* tokens);

/// Chooses a token for each of `n` different sequences and appends it to them and their guides, in
/// one forward.
llmc_status step_each(llmc_session& session, const uint32_t* sequences, uint32_t n,
                      int32_t* tokens);

/// Returns the logits after a sequence's last token, or nullptr if it has none.
const float* last_logits(llmc_session& session, Sequence& sequence);
/// Makes the logits of two different sequences available at the same time. Both must have a last
/// token; requires a batch of at least 2.
void compute_both_logits(llmc_session& session, Sequence& first, Sequence& second);
/// Return the logits after one row of the last chunk, or after `rows` (1 .. batch) consecutive
/// rows.
const float* row_logits(llmc_session& session, uint32_t row);
const float* rows_logits(llmc_session& session, uint32_t row, uint32_t rows);

/// Chooses the token after a sequence's last one without changing the sequence.
llmc_status draw_next(llmc_session& session, Sequence& sequence, DrawnToken& drawn);

}  // namespace llmc::core

#pragma once

#include "session.h"

/// Running tokens and looking at what they left: under the functions of llmc.h, which check that
/// pointers are there and that nobody else is inside.
namespace llmc::core {

/// Appends to the selected sequence, chunk by chunk; `*done` follows, unless it is NULL, and is
/// never read: a callback may write there. When the context is full it does what the configuration
/// says. On an error everything is as before, and `*done` 0.
llmc_status append_all(llmc_session& session, const int32_t* tokens, size_t n, size_t* done);

/// Drops `drop` tokens of the selected sequence behind its first `keep` and computes those that
/// follow anew at their new positions; when none follow there are no logits.
llmc_status slide(llmc_session& session, uint32_t keep, uint32_t drop);

/// One token for each of `n` different sequences, in one forward.
llmc_status append_each(llmc_session& session, const uint32_t* sequences, uint32_t n,
                        const int32_t* tokens);

/// Chooses a token for each of `n` different sequences and appends it to them and to those that
/// guide them, in one forward.
llmc_status step_each(llmc_session& session, const uint32_t* sequences, uint32_t n,
                      int32_t* tokens);

/// The logits after a sequence's last token, which it has; nullptr without.
const float* last_logits(llmc_session& session, Sequence& sequence);
/// Those of two different ones at once, each of which has a last token; a batch of 2 or more.
void show_both(llmc_session& session, Sequence& first, Sequence& second);
/// Those after row `row` of the last chunk, or after `rows` (1 .. batch) of them from there on.
const float* row_logits(llmc_session& session, uint32_t row);
const float* rows_logits(llmc_session& session, uint32_t row, uint32_t rows);

/// The token that follows a sequence's last one; nothing is changed.
llmc_status draw_next(llmc_session& session, Sequence& sequence, DrawnToken& drawn);

}  // namespace llmc::core

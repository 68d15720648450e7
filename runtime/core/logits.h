#pragma once

#include "session.h"

/// Computes logits from rows of the last layer, and records which slot contains the logits of which
/// sequence.
namespace llmc::core {

/// Returns the last layer's rows of the last forward pass, beginning with row `row`.
const float* hidden_rows(const llmc_session& session, uint32_t row);

/// Computes the logits of `count` rows into consecutive slots, beginning with `slot`.
void run_head(llmc_session& session, const float* rows, uint32_t count, uint32_t slot);

/// Computes the logits of `count` rows of the last forward pass, beginning with row `row`, into the
/// slots from 0 on.
void run_rows(llmc_session& session, uint32_t row, uint32_t count);

/// Returns the slot that is used when a sequence's logits are computed alone.
uint32_t own_slot(const llmc_session& session, const Sequence& sequence);

/// Saves the row of a sequence's last token, because the next forward pass overwrites it. The row
/// has no logits yet. A token that was drawn before is no longer valid.
void keep_row(llmc_session& session, Sequence& sequence, uint32_t row);
/// Records that `slot` contains the logits of the saved row.
void keep_logits(llmc_session& session, Sequence& sequence, uint32_t slot);
/// Returns whether the sequence's next token is to be chosen without computing most logits: its
/// settings allow this, its logits are not computed yet, and it probably pays off
/// (llmc_model.choose, llmc_session::whole_choices).
bool can_skip_logits(const llmc_session& session, const Sequence& sequence);
/// Chooses the next token without computing most logits. If that paid off, later calls return the
/// same token without computing it again. The sequence must have a saved row without logits. Fails
/// with LLMC_ERROR_NOT_FINITE if the largest logit is not finite.
llmc_status choose_best(llmc_session& session, Sequence& sequence, int32_t* token);
/// Records that the sequence has no saved row and no logits.
void drop_row(Sequence& sequence);

/// Returns the logits after a sequence's last token; nullptr if there are none.
const float* last_logits(llmc_session& session, Sequence& sequence);
/// Makes the logits of two different sequences available at the same time. Requires that both have
/// a saved row, and a batch of at least 2.
void compute_both_logits(llmc_session& session, Sequence& first, Sequence& second);
/// Return the logits of row `row` of the last chunk, or of `rows` (1 .. batch) consecutive rows
/// that begin with it.
const float* row_logits(llmc_session& session, uint32_t row);
const float* rows_logits(llmc_session& session, uint32_t row, uint32_t rows);

}  // namespace llmc::core

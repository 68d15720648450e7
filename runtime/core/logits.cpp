#include "logits.h"

namespace llmc::core {
namespace {

float* logits_at(const llmc_session& session, uint32_t slot) {
  return session.logits + uint64_t{slot} * session.model->vocab;
}

/// Maximum of llmc_session::choice_backoff, which grows 7, 35, 147, 255 with successive choices
/// that do not pay off.
constexpr uint32_t kMaxBackoff = 255;

void choice_did_not_pay(llmc_session& session) {
  const uint32_t more = 4 * session.choice_backoff + 7;
  session.choice_backoff = more < kMaxBackoff ? more : kMaxBackoff;
  session.whole_choices = session.choice_backoff;
}

/// Called when logits after the sequence's last token are read: discards a token that was chosen
/// by choose_best(), which does not compute most logits.
void note_reading(llmc_session& session, Sequence& sequence) {
  if (sequence.best == kNoToken) return;
  sequence.best = kNoToken;
  choice_did_not_pay(session);
}

bool is_current(const llmc_session& session, const LogitsSlot& at) {
  return at.generation != 0 && session.generations[at.slot] == at.generation;
}

/// Makes the logits after a sequence's last token available. If no slot contains them, computes
/// them in `slot`. The sequence must have a last token.
void compute_logits(llmc_session& session, Sequence& sequence, uint32_t slot) {
  if (is_current(session, sequence.logits)) return;
  note_reading(session, sequence);
  run_head(session, sequence.last_row, 1, slot);
  sequence.logits = {slot, session.generations_used};
}

}  // namespace

const float* hidden_rows(const llmc_session& session, uint32_t row) {
  const llmc_model& model = *session.model;
  return reinterpret_cast<const float*>(session.run.scratch + model.hidden_offset) +
         uint64_t{row} * model.hidden;
}

void run_head(llmc_session& session, const float* rows, uint32_t count, uint32_t slot) {
  session.model->head(&session.run, rows, count, logits_at(session, slot), session.best + slot);
  for (uint32_t i = 0; i < count; ++i) session.generations[slot + i] = ++session.generations_used;
}

uint32_t own_slot(const llmc_session& session, const Sequence& sequence) {
  const auto* at = reinterpret_cast<const unsigned char*>(&sequence);
  const auto index = static_cast<uint64_t>(at - session.sequences) / LLMC_SEQUENCE_BYTES;
  return static_cast<uint32_t>(index % session.model->batch);
}

void run_rows(llmc_session& session, uint32_t row, uint32_t count) {
  const uint64_t before = session.generations_used;
  run_head(session, hidden_rows(session, row), count, 0);
  session.row_slot = {0, before + 1};
  session.row = row;
  session.row_count = count;
}

void keep_row(llmc_session& session, Sequence& sequence, uint32_t row) {
  __builtin_memcpy(sequence.last_row, hidden_rows(session, row),
                   uint64_t{session.model->hidden} * sizeof(float));
  sequence.has_row = true;
  if (sequence.best != kNoToken) session.choice_backoff = 0;
  sequence.best = kNoToken;
  sequence.logits = {0, 0};
  // It was chosen for the position of the token that has now been appended.
  sequence.drawn.valid = false;
}

void keep_logits(llmc_session& session, Sequence& sequence, uint32_t slot) {
  sequence.logits = {slot, session.generations[slot]};
}

bool can_skip_logits(const llmc_session& session, const Sequence& sequence) {
  const SamplingConstraints& constraints = sequence.constraints;
  return session.model->choose != nullptr &&
         (session.whole_choices == 0 || sequence.best != kNoToken) &&
         !is_current(session, sequence.logits) && constraints.bias_count == 0 &&
         !constraints.guidance.on && constraints.grammar.grammar == nullptr &&
         is_argmax(sequence.sampling);
}

llmc_status choose_best(llmc_session& session, Sequence& sequence, int32_t* token) {
  if (sequence.best != kNoToken) {
    *token = sequence.best;
    return LLMC_OK;
  }
  float logit = 0;
  uint32_t computed = 0;
  // `choose` uses the slot as scratch memory, which overwrites its logits.
  const uint32_t slot = own_slot(session, sequence);
  session.generations[slot] = ++session.generations_used;
  const uint32_t best = session.model->choose(&session.run, sequence.last_row,
                                              logits_at(session, slot), &logit, &computed);
  const uint32_t vocab = session.model->vocab;
  session.logits_computed = computed < vocab ? computed : vocab;
  // `choose` reads 71 % of the matrix's bytes in any case, and single panels are slower to read
  // than a stream of them.
  const bool pays = session.logits_computed <= vocab / 32;
  if (!pays) choice_did_not_pay(session);
  if (!(logit > -__builtin_inff() && logit < __builtin_inff())) return LLMC_ERROR_NOT_FINITE;
  *token = static_cast<int32_t>(best);
  if (pays) sequence.best = *token;
  return LLMC_OK;
}

void drop_row(Sequence& sequence) {
  sequence.best = kNoToken;
  sequence.has_row = false;
  sequence.drawn.valid = false;
}

const float* last_logits(llmc_session& session, Sequence& sequence) {
  if (!sequence.has_row) return nullptr;
  compute_logits(session, sequence, own_slot(session, sequence));
  return logits_at(session, sequence.logits.slot);
}

void compute_both_logits(llmc_session& session, Sequence& first, Sequence& second) {
  compute_logits(session, first, own_slot(session, first));
  const uint32_t slot = own_slot(session, second);
  compute_logits(session, second,
                 slot != first.logits.slot ? slot : (slot + 1) % session.model->batch);
}

const float* row_logits(llmc_session& session, uint32_t row) {
  if (row + 1 == session.last_chunk) return last_logits(session, session.selected());
  const uint32_t after = row - session.row;
  const LogitsSlot& first = session.row_slot;
  if (first.generation == 0 || row < session.row || after >= session.row_count ||
      !is_current(session, {first.slot + after, first.generation + after})) {
    run_rows(session, row, 1);
  }
  return logits_at(session, session.row_slot.slot + row - session.row);
}

const float* rows_logits(llmc_session& session, uint32_t row, uint32_t rows) {
  if (row + rows == session.last_chunk) note_reading(session, session.selected());
  run_rows(session, row, rows);
  return session.logits;
}

}  // namespace llmc::core

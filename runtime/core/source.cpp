#include "checksum.h"
#include "config.h"
#include "message.h"
#include "session.h"

namespace llmc::core {
namespace {

/// Checks the number of token ids or frames of a source.
llmc_status check_size(const llmc_session& session, size_t n) {
  const llmc_model& model = *session.model;
  const char* const unit = model.source_width == 0 ? " tokens" : " frames";
  if (n > model.source_max) {
    Message()
        .text("the source has ")
        .number(n)
        .text(unit)
        .text("; this model was compiled for at most ")
        .number(model.source_max)
        .send(session.config, LLMC_LOG_ERROR);
    return LLMC_ERROR_CONTEXT_FULL;
  }
  if (n >= model.source_min) return LLMC_OK;
  Message()
      .text("the source has ")
      .number(n)
      .text(unit)
      .text("; the encoder needs at least ")
      .number(model.source_min)
      .send(session.config, LLMC_LOG_ERROR);
  return LLMC_ERROR_ARGUMENT;
}

/// Drops all tokens of a sequence, because their keys and values depend on its source.
void clear_tokens(llmc_session& session, Sequence& sequence) {
  session.cache.truncate(sequence.cached, 0);
  begin(session, sequence);
}

/// Returns the slot of the selected sequence's next source: its current slot if no other sequence
/// uses it, otherwise a free one; kNoSource if there is none.
uint32_t next_slot(const llmc_session& session) {
  const uint32_t own = session.selected().source;
  if (own != kNoSource && session.sources[own].users == 1) return own;
  for (uint32_t i = 0; i < session.model->sources; ++i)
    if (session.sources[i].users == 0) return i;
  return kNoSource;
}

/// Gives the selected sequence a slot for a source, and drops the tokens of all sequences that
/// attend to the slot. Fails with LLMC_ERROR_POOL_FULL if other sequences use all slots.
llmc_status take_slot(llmc_session& session) {
  Sequence& selected = session.selected();
  if (session.model->sources == 1) {
    for (uint32_t i = 0; i < session.model->sequences; ++i)
      if (session.sequence(i).alive) clear_tokens(session, session.sequence(i));
    return LLMC_OK;
  }
  const uint32_t slot = next_slot(session);
  if (slot == kNoSource) {
    Message()
        .text("other sequences use all ")
        .number(session.model->sources)
        .text(" sources of the session")
        .send(session.config, LLMC_LOG_ERROR);
    return LLMC_ERROR_POOL_FULL;
  }
  leave_source(session, selected);
  attend_to(session, selected, slot);
  clear_tokens(session, selected);
  return LLMC_OK;
}

/// Checks the session before a source is encoded; `is_ids`: the source is token ids.
llmc_status check_session(const llmc_session& session, bool is_ids) {
  if (session.busy) return LLMC_ERROR_BUSY;
  const llmc_model& model = *session.model;
  if (model.encode == nullptr || (model.source_width == 0) != is_ids) return LLMC_ERROR_SOURCE;
  return float_mode_is_default() ? LLMC_OK : LLMC_ERROR_FLOAT_MODE;
}

/// Encodes `n` tokens or frames, whose data has `bytes` bytes.
llmc_status encode(llmc_session& session, const void* input, size_t n, size_t bytes) {
  const ReentrancyGuard guard(session);
  if (const llmc_status bad = take_slot(session)) return bad;
  session.last_chunk = 0;
  const uint32_t slot = session.selected().source;
  Source& source = session.sources[slot];
  source.rows = session.model->encode(&session.run, input, static_cast<uint32_t>(n),
                                      session.source_state(slot));
  const bool encoded = source.rows != 0;
  const uint64_t hash = encoded ? checksum(input, bytes, 0) : 0;
  source.hash = encoded && hash == 0 ? 1 : hash;
  if (encoded) return LLMC_OK;
  Message()
      .text("an index that the encoder computes is outside its table")
      .send(session.config, LLMC_LOG_ERROR);
  return LLMC_ERROR_ARGUMENT;
}

}  // namespace

const Source* source_of(const llmc_session& session, const Sequence& sequence) {
  if (sequence.source == kNoSource) return nullptr;
  const Source& source = session.sources[sequence.source];
  return source.rows == 0 ? nullptr : &source;
}

void attend_to(llmc_session& session, Sequence& sequence, uint32_t slot) {
  sequence.source = slot;
  if (slot != kNoSource) ++session.sources[slot].users;
}

void leave_source(llmc_session& session, Sequence& sequence) {
  if (sequence.source != kNoSource) --session.sources[sequence.source].users;
  sequence.source = kNoSource;
}

}  // namespace llmc::core

extern "C" llmc_status llmc_encode(llmc_session* session, const int32_t* ids, size_t n) {
  using namespace llmc::core;
  if (session == nullptr || ids == nullptr || n == 0) return LLMC_ERROR_ARGUMENT;
  if (const llmc_status bad = check_session(*session, /*is_ids=*/true)) return bad;
  if (const llmc_status bad = check_size(*session, n)) return bad;
  const uint32_t vocab = session->model->source_vocab;
  for (size_t i = 0; i < n; ++i)
    if (!is_token(ids[i], vocab)) return refuse_token(session->config, ids[i], vocab, &i);
  return encode(*session, ids, n, n * sizeof *ids);
}

extern "C" llmc_status llmc_encode_features(llmc_session* session, const float* features,
                                            size_t n) {
  using namespace llmc::core;
  if (session == nullptr || features == nullptr || n == 0) return LLMC_ERROR_ARGUMENT;
  if (const llmc_status bad = check_session(*session, /*is_ids=*/false)) return bad;
  if (const llmc_status bad = check_size(*session, n)) return bad;
  return encode(*session, features, n, n * session->model->source_width * sizeof *features);
}

extern "C" size_t llmc_source_size(const llmc_session* session) {
  if (session == nullptr) return 0;
  const llmc::core::Source* const source = llmc::core::source_of(*session, session->selected());
  return source == nullptr ? 0 : source->rows;
}
extern "C" size_t llmc_source_minimum(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->source_min;
}
extern "C" size_t llmc_source_limit(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->source_max;
}
extern "C" size_t llmc_source_width(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->source_width;
}

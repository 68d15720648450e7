#include "config.h"
#include "message.h"
#include "session.h"

namespace llmc::core {
namespace {

llmc_status check_source(const llmc_session& session, const int32_t* ids, size_t n) {
  const llmc_model& model = *session.model;
  if (n > model.source_max) {
    Message()
        .text("the source has ")
        .number(n)
        .text(" tokens; this model was compiled for at most ")
        .number(model.source_max)
        .send(session.config, LLMC_LOG_ERROR);
    return LLMC_ERROR_CONTEXT_FULL;
  }
  for (size_t i = 0; i < n; ++i)
    if (ids[i] < 0) return LLMC_ERROR_TOKEN;
  return LLMC_OK;
}

/// Drops all tokens of all sequences, because their keys and values depend on the source.
void clear_sequences(llmc_session& session) {
  session.last_chunk = 0;
  for (uint32_t i = 0; i < session.model->sequences; ++i) {
    Sequence& sequence = session.sequence(i);
    if (!sequence.alive) continue;
    session.cache.truncate(sequence.cached, 0);
    begin(session, sequence);
  }
}

}  // namespace
}  // namespace llmc::core

extern "C" llmc_status llmc_encode(llmc_session* session, const int32_t* ids, size_t n) {
  using namespace llmc::core;
  if (session == nullptr || ids == nullptr || n == 0) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  const llmc_model& model = *session->model;
  if (model.encode == nullptr) return LLMC_ERROR_SOURCE;
  if (!float_mode_is_default()) return LLMC_ERROR_FLOAT_MODE;
  if (const llmc_status bad = check_source(*session, ids, n)) return bad;
  const ReentrancyGuard guard(*session);
  clear_sequences(*session);
  session->run.source_tokens = 0;
  if (model.encode(&session->run, ids, static_cast<uint32_t>(n), session->source) != 0)
    return LLMC_ERROR_TOKEN;
  session->run.source = session->source;
  session->run.source_tokens = static_cast<uint32_t>(n);
  return LLMC_OK;
}

extern "C" size_t llmc_source_size(const llmc_session* session) {
  return session == nullptr ? 0 : session->run.source_tokens;
}
extern "C" size_t llmc_source_limit(const llmc_session* session) {
  return session == nullptr ? 0 : session->model->source_max;
}

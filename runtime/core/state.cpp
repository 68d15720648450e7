#include "checksum.h"
#include "message.h"
#include "session.h"

namespace llmc::core {
namespace {

constexpr char kMagic[8] = {'l', 'l', 'm', 'c', 's', 't', 'a', 't'};

/// Returns the header with a checksum of 0.
llmc_state_header header_of(const llmc_session& session, uint32_t tokens, bool has_row,
                            uint64_t state_bytes, uint64_t bytes) {
  const llmc_model& model = *session.model;
  llmc_state_header header = {};
  __builtin_memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = LLMC_STATE_VERSION;
  header.tokens = tokens;
  header.has_row = has_row;
  header.bytes = bytes;
  header.state_bytes = state_bytes;
  header.weights_hash = model.weights_hash;
  header.weights_bytes = model.weights_bytes;
  header.program_hash = model.program_hash;
  header.token_bytes = model.kv_token_bytes;
  header.vocab = model.vocab;
  header.hidden = model.hidden;
  header.layers = model.layers;
  header.heads = model.heads;
  header.kv_heads = model.kv_heads;
  header.head_dim = model.head_dim;
  header.kv_format = model.kv_format;
  const Source* const source = source_of(session, session.selected());
  header.source_hash = source == nullptr ? 0 : source->hash;
  return header;
}

/// Returns the checksum of all bytes except the checksum itself.
uint64_t checksum_of(const unsigned char* state, uint64_t bytes) {
  const uint64_t start = checksum(state, offsetof(llmc_state_header, checksum), 0);
  constexpr size_t kAfterChecksum = offsetof(llmc_state_header, checksum) + sizeof(uint64_t);
  return checksum(state + kAfterChecksum, bytes - kAfterChecksum, start);
}

llmc_status refuse(const llmc_session& session, llmc_status status) {
  Message().text(llmc_status_text(status)).send(session.config, LLMC_LOG_ERROR);
  return status;
}

/// Calls f(block, slots, first token) for each block that contains some of the first `tokens`
/// tokens.
template <class F>
void for_blocks(const llmc_model& model, uint32_t tokens, F f) {
  for (uint32_t first = 0; first < tokens; first += model.kv_block) {
    const uint32_t left = tokens - first;
    f(first / model.kv_block, left < model.kv_block ? left : model.kv_block, first);
    if (left <= model.kv_block) return;
  }
}

/// Returns how many bytes of the sequence's recurrent states are saved: 0 if they are zeros or do
/// not contain all tokens.
uint64_t saved_state_bytes(const llmc_session& session) {
  const Sequence& sequence = session.selected();
  const uint32_t tokens = sequence.cached.position;
  return tokens > 0 && sequence.state_tokens == tokens ? session.model->state_bytes : 0;
}

llmc_state_layout layout_of(const llmc_session& session) {
  const Sequence& sequence = session.selected();
  return llmc_state_layout_of(session.model, sequence.cached.position, sequence.has_row,
                              saved_state_bytes(session));
}

void save(const llmc_session& session, const llmc_state_layout& at, unsigned char* to) {
  const llmc_model& model = *session.model;
  const Sequence& sequence = session.selected();
  const CachedTokens& cached = sequence.cached;
  // Clear the padding between the parts.
  __builtin_memset(to, 0, at.kv);
  if (cached.position > 0) {
    __builtin_memset(to + at.mus - LLMC_ALIGNMENT, 0, LLMC_ALIGNMENT);
    __builtin_memset(to + at.total - LLMC_ALIGNMENT, 0, LLMC_ALIGNMENT);
  }
  const uint64_t state_bytes = saved_state_bytes(session);
  llmc_state_header header =
      header_of(session, cached.position, sequence.has_row, state_bytes, at.total);
  const TokenHistory history = session.cache.history(cached);
  for (uint32_t i = 0; i < history.count(); ++i) {
    const int32_t id = history.stored(i);
    const float mu = session.cache.mu(cached, i);
    __builtin_memcpy(to + at.ids + uint64_t{i} * sizeof id, &id, sizeof id);
    __builtin_memcpy(to + at.mus + uint64_t{i} * sizeof mu, &mu, sizeof mu);
  }
  if (sequence.has_row)
    __builtin_memcpy(to + at.row, sequence.last_row, uint64_t{model.hidden} * sizeof(float));
  if (state_bytes > 0) __builtin_memcpy(to + at.recurrent, sequence.state, state_bytes);
  for_blocks(model, cached.position, [&](uint32_t block, uint32_t slots, uint32_t first) {
    model.kv_save(cached.blocks[block], 0, slots, to + at.kv + first * model.kv_token_bytes);
  });
  __builtin_memcpy(to, &header, sizeof header);
  header.checksum = checksum_of(to, at.total);
  __builtin_memcpy(to, &header, sizeof header);
}

/// Returns whether `id` is a valid id of an embedding at index `place`. `shift`: the shift before
/// it; receives the shift after it. Positions of text never decrease, so the shift decreases by at
/// most 1. The tokens after the embedding must have valid positions until the context is full.
bool is_embedding(const llmc_model& model, int32_t id, uint32_t place, int32_t& shift) {
  if (model.position_axes == 0 || id >= 0) return id == kNoToken;
  const int32_t before = shift;
  shift = shift_of(id);
  const int64_t next = int64_t{place} + 1 + shift;
  return shift >= before - 1 && next >= 1 && next + model.ctx - (place + 1) <= kPositionLimit;
}

/// Checks that the bytes are a complete state of this model. Returns its header and layout.
llmc_status check(const llmc_session& session, const unsigned char* from, size_t bytes,
                  llmc_state_header& header, llmc_state_layout& at) {
  const llmc_model& model = *session.model;
  if (bytes < sizeof header) return LLMC_ERROR_STATE;
  __builtin_memcpy(&header, from, sizeof header);
  for (size_t i = 0; i < sizeof kMagic; ++i)
    if (header.magic[i] != kMagic[i]) return LLMC_ERROR_STATE;
  if (header.version != LLMC_STATE_VERSION) return LLMC_ERROR_VERSION;
  if (header.bytes != bytes || header.has_row > 1) return LLMC_ERROR_STATE;
  if (checksum_of(from, bytes) != header.checksum) return LLMC_ERROR_STATE;
  // The content may be forged even if the checksum is correct: check everything.
  llmc_state_header own =
      header_of(session, header.tokens, header.has_row != 0, header.state_bytes, header.bytes);
  own.checksum = header.checksum;
  const uint64_t source_hash = own.source_hash;
  if (model.encode != nullptr) own.source_hash = header.source_hash;
  if (__builtin_memcmp(&own, &header, sizeof own) != 0) return LLMC_ERROR_STATE_MODEL;
  if (header.source_hash != source_hash) return LLMC_ERROR_SOURCE;
  if (header.state_bytes != 0 && (header.state_bytes != model.state_bytes || header.tokens == 0))
    return LLMC_ERROR_STATE_MODEL;
  at = llmc_state_layout_of(&model, header.tokens, header.has_row != 0, header.state_bytes);
  const bool may_have_row = header.tokens > 0 && model.head != nullptr;
  if (at.total != bytes || (header.has_row != 0 && !may_have_row)) return LLMC_ERROR_STATE;
  int32_t shift = 0;
  for (uint32_t i = 0; i < header.tokens; ++i) {
    int32_t id;
    __builtin_memcpy(&id, from + at.ids + uint64_t{i} * sizeof id, sizeof id);
    // Recurrent states that are not saved are computed from the tokens again.
    const bool runs_again = model.state_bytes > 0 && header.state_bytes == 0;
    const bool embedding =
        is_embedding(model, id, i, shift) && model.embedding_width > 0 && !runs_again;
    if (!embedding && !is_token(id, model.vocab)) return LLMC_ERROR_STATE;
    float mu;
    __builtin_memcpy(&mu, from + at.mus + uint64_t{i} * sizeof mu, sizeof mu);
    if (!(mu - mu == 0.0f)) return LLMC_ERROR_STATE;  // infinite or NaN
  }
  return header.tokens > model.ctx ? LLMC_ERROR_CONTEXT_FULL : LLMC_OK;
}

llmc_status load(llmc_session& session, const unsigned char* from, size_t bytes) {
  llmc_state_header header;
  llmc_state_layout at;
  if (const llmc_status bad = check(session, from, bytes, header, at)) return refuse(session, bad);
  const llmc_model& model = *session.model;
  Sequence& sequence = session.selected();
  CachedTokens& cached = sequence.cached;
  if (!session.cache.replace(cached, 0, header.tokens))
    return refuse(session, LLMC_ERROR_POOL_FULL);
  for_blocks(model, header.tokens, [&](uint32_t block, uint32_t slots, uint32_t first) {
    __builtin_memcpy(session.tokens, from + at.ids + uint64_t{first} * sizeof(int32_t),
                     uint64_t{slots} * sizeof(int32_t));
    session.cache.note(cached, session.tokens, slots, 0.0f);
    for (uint32_t i = 0; i < slots; ++i) {
      const uint64_t mu = at.mus + uint64_t{first + i} * sizeof(float);
      __builtin_memcpy(&session.cache.mu(cached, first + i), from + mu, sizeof(float));
    }
    model.kv_load(cached.blocks[block], 0, slots, from + at.kv + first * model.kv_token_bytes);
    session.cache.commit(cached, slots);
  });
  KvCache::finish(cached);
  clear_state(session, sequence);
  if (header.state_bytes > 0) {
    __builtin_memcpy(sequence.state, from + at.recurrent, header.state_bytes);
    sequence.state_tokens = header.tokens;
  }
  sequence.has_row = header.has_row != 0;
  sequence.best = kNoToken;
  sequence.logits.generation = 0;
  sequence.drawn.valid = false;
  if (sequence.has_row)
    __builtin_memcpy(sequence.last_row, from + at.row, uint64_t{model.hidden} * sizeof(float));
  session.last_chunk = 0;
  return LLMC_OK;
}

}  // namespace
}  // namespace llmc::core

using llmc::core::ReentrancyGuard;

extern "C" {

size_t llmc_state_bytes(const llmc_session* session) {
  return session == nullptr ? 0 : llmc::core::layout_of(*session).total;
}

llmc_status llmc_state_save(llmc_session* session, void* buffer, size_t bytes, size_t* written) {
  if (session == nullptr || buffer == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  const llmc_state_layout at = llmc::core::layout_of(*session);
  if (bytes < at.total) return LLMC_ERROR_BUFFER;
  llmc::core::save(*session, at, static_cast<unsigned char*>(buffer));
  if (written != nullptr) *written = at.total;
  return LLMC_OK;
}

llmc_status llmc_state_load(llmc_session* session, const void* buffer, size_t bytes) {
  if (session == nullptr || buffer == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  const ReentrancyGuard guard(*session);
  return llmc::core::load(*session, static_cast<const unsigned char*>(buffer), bytes);
}

}  // extern "C"

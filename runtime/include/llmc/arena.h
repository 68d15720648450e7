/*
 * Layout of an arena. The core places a session with these functions, and the compiler computes
 * NAME_ARENA_BYTES with them, so that both use the same numbers.
 *
 *     session | sequences [sequences] | block tables [sequences][ctx / kv_block rounded up]
 *           | last rows f32[sequences][hidden] | reference counts u32[blocks]
 *           | free blocks u32[blocks] | segments [batch] | metadata of the logits rows [batch]
 *           | logits f32[batch][vocab] | candidates 8 B [vocab] | ids i32[ctx + 2 batch]
 *           | scratch [in_flight]
 *           | metadata of the sources [sources] | sources [sources][source_bytes]
 *           | states [sequences][state_bytes]
 *           | KV pool [blocks][kv_block_bytes]
 *
 * The offset of every part is a multiple of 64 bytes; that of scratch is a multiple of 4096 bytes
 * if in_flight is more than 1. Each last row is padded to a multiple of 64 bytes.
 * Valid C99 and C++ (constant expressions in C++).
 */
#ifndef LLMC_ARENA_H
#define LLMC_ARENA_H

#include "llmc/model.h"

#ifdef __cplusplus
#define LLMC_ARENA_FUNCTION constexpr inline
#else
#define LLMC_ARENA_FUNCTION static inline
#endif

/* Number of bytes reserved for the session's own fields, and for the fields of each sequence. */
#define LLMC_SESSION_BYTES 768u
#define LLMC_SEQUENCE_BYTES 512u
/* Number of bytes reserved for an address, the same on every target, and for an llmc_segment. */
#define LLMC_ADDRESS_BYTES 8u
#define LLMC_SEGMENT_BYTES 48u
/* Alignment that GPUs need to use host memory without a copy. */
#define LLMC_PAGE_BYTES 4096u
/* Bytes that the runtime stores about each row of logits: a generation (u64) and the id with the
 * largest logit (u32). */
#define LLMC_LOGITS_NOTE_BYTES 12u
/* Bytes that the runtime stores about each source: the hash of its ids or features (u64), its rows
 * and its users (u32). */
#define LLMC_SOURCE_NOTE_BYTES 16u
/* Size of one candidate of the sampler: a token id and its logit. */
#define LLMC_CANDIDATE_BYTES 8u

/* The fields of llmc_model that the size of an arena depends on. */
typedef struct llmc_arena_needs {
  uint32_t vocab; /* 0: no logits */
  uint32_t hidden;
  uint32_t ctx;
  uint32_t sequences;
  uint32_t batch;
  uint32_t kv_block;
  uint32_t pool_blocks;
  uint64_t scratch_bytes;
  uint64_t kv_block_bytes;
  uint32_t sources;
  uint64_t source_bytes;
  uint64_t state_bytes;
  uint32_t in_flight;
} llmc_arena_needs;

/* Offsets from the start of the arena and sizes, in bytes except for blocks_of_sequence. If a size
 * does not fit 64 bits or kv_block is 0, total is UINT64_MAX and the offsets are undefined. */
typedef struct llmc_arena_layout {
  uint64_t blocks_of_sequence; /* ctx / kv_block, rounded up */
  uint64_t last_row_bytes;     /* bytes between the last rows of two successive sequences */
  uint64_t sequences, block_tables, last_rows, block_users, free_blocks, segments, logits_notes;
  uint64_t logits, candidates, tokens, scratch, source_notes, sources, states, kv_pool;
  uint64_t total;
} llmc_arena_layout;

/* Returns a + b * c, rounded up to a multiple of LLMC_ALIGNMENT. Returns UINT64_MAX if the result
 * does not fit 64 bits, or if a is UINT64_MAX. */
LLMC_ARENA_FUNCTION uint64_t llmc_arena_after(uint64_t a, uint64_t b, uint64_t c) {
  const uint64_t limit = UINT64_MAX - (LLMC_ALIGNMENT - 1);
  if (a > limit) return UINT64_MAX;
  if (b != 0 && c > (limit - a) / b) return UINT64_MAX;
  return (a + b * c + (LLMC_ALIGNMENT - 1)) / LLMC_ALIGNMENT * LLMC_ALIGNMENT;
}

LLMC_ARENA_FUNCTION llmc_arena_layout llmc_arena_layout_of(llmc_arena_needs needs) {
  llmc_arena_layout at = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, UINT64_MAX};
  if (needs.kv_block == 0) return at;
  at.blocks_of_sequence = needs.ctx; /* widen before the addition: ctx may be near 2^32 */
  at.blocks_of_sequence = (at.blocks_of_sequence + needs.kv_block - 1) / needs.kv_block;
  at.last_row_bytes = llmc_arena_after(0, needs.hidden, sizeof(float));
  at.sequences = LLMC_SESSION_BYTES;
  at.block_tables = llmc_arena_after(at.sequences, needs.sequences, LLMC_SEQUENCE_BYTES);
  at.last_rows = llmc_arena_after(at.block_tables, needs.sequences,
                                  at.blocks_of_sequence * LLMC_ADDRESS_BYTES);
  at.block_users = llmc_arena_after(at.last_rows, needs.sequences, at.last_row_bytes);
  at.free_blocks = llmc_arena_after(at.block_users, needs.pool_blocks, sizeof(uint32_t));
  at.segments = llmc_arena_after(at.free_blocks, needs.pool_blocks, sizeof(uint32_t));
  at.logits_notes = llmc_arena_after(at.segments, needs.batch, LLMC_SEGMENT_BYTES);
  at.logits = llmc_arena_after(at.logits_notes, needs.batch, LLMC_LOGITS_NOTE_BYTES);
  at.candidates = llmc_arena_after(at.logits, needs.batch, (uint64_t)needs.vocab * sizeof(float));
  at.tokens = llmc_arena_after(at.candidates, needs.vocab, LLMC_CANDIDATE_BYTES);
  at.scratch =
      llmc_arena_after(at.tokens, (uint64_t)needs.ctx + 2 * (uint64_t)needs.batch, sizeof(int32_t));
  /* The scratch of several chunks in flight starts with a page, so that a device can use it without
   * a copy. */
  if (needs.in_flight > 1 && at.scratch < UINT64_MAX - LLMC_PAGE_BYTES)
    at.scratch = (at.scratch + LLMC_PAGE_BYTES - 1) / LLMC_PAGE_BYTES * LLMC_PAGE_BYTES;
  at.source_notes = llmc_arena_after(at.scratch, needs.scratch_bytes, needs.in_flight);
  at.sources = llmc_arena_after(at.source_notes, needs.sources, LLMC_SOURCE_NOTE_BYTES);
  at.states = llmc_arena_after(at.sources, needs.sources, needs.source_bytes);
  at.kv_pool = llmc_arena_after(at.states, needs.sequences, needs.state_bytes);
  at.total = llmc_arena_after(at.kv_pool, needs.pool_blocks, needs.kv_block_bytes);
  return at;
}

LLMC_ARENA_FUNCTION llmc_arena_layout llmc_arena_layout_of_model(const llmc_model* model) {
  /* A shard without a head has no logits. */
  const uint32_t vocab = model->head == 0 ? 0 : model->vocab;
  llmc_arena_needs needs = {vocab,
                            model->hidden,
                            model->ctx,
                            model->sequences,
                            model->batch,
                            model->kv_block,
                            model->pool_blocks,
                            model->scratch_bytes,
                            model->kv_block_bytes,
                            model->sources,
                            model->source_bytes,
                            model->state_bytes,
                            model->in_flight};
  return llmc_arena_layout_of(needs);
}

/* Offsets in bytes of the parts of a saved state (llmc_state_header); state_bytes is the header's.
 * total is UINT64_MAX if a size does not fit 64 bits. */
typedef struct llmc_state_layout {
  uint64_t ids, row, recurrent, kv, mus;
  uint64_t total;
} llmc_state_layout;

LLMC_ARENA_FUNCTION llmc_state_layout llmc_state_layout_of(const llmc_model* model, uint32_t tokens,
                                                           int has_row, uint64_t state_bytes) {
  llmc_state_layout at = {sizeof(llmc_state_header), 0, 0, 0, 0, 0};
  at.row = llmc_arena_after(at.ids, tokens, sizeof(int32_t));
  at.recurrent = llmc_arena_after(at.row, has_row ? model->hidden : 0u, sizeof(float));
  at.kv = llmc_arena_after(at.recurrent, state_bytes, 1);
  at.mus = llmc_arena_after(at.kv, tokens, model->kv_token_bytes);
  at.total = llmc_arena_after(at.mus, tokens, sizeof(float));
  return at;
}

#endif /* LLMC_ARENA_H */

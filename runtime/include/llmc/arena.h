/*
 * Where everything lies in an arena. The core places a session with these functions and the
 * compiler prints NAME_ARENA_BYTES with them, so both say the same number.
 *
 *   session | block table u32[blocks] | free blocks u32[blocks] | logits f32[vocab]
 *           | candidates 8 B [vocab] | scratch | KV pool [blocks][kv_block_bytes]
 *
 * Every part starts at a multiple of 64 bytes. C99 and C++ (constant expressions there).
 */
#ifndef LLMC_ARENA_H
#define LLMC_ARENA_H

#include "llmc/model.h"

#ifdef __cplusplus
#define LLMC_ARENA_FUNCTION constexpr inline
#else
#define LLMC_ARENA_FUNCTION static inline
#endif

/* Room for the session's own fields. */
#define LLMC_SESSION_BYTES 512u
/* One entry of the sampler: a token id and its logit. */
#define LLMC_CANDIDATE_BYTES 8u

/* The numbers of llmc_model an arena's size depends on. */
typedef struct llmc_arena_needs {
  uint32_t vocab;
  uint32_t ctx;
  uint32_t kv_block;
  uint64_t scratch_bytes;
  uint64_t kv_block_bytes;
} llmc_arena_needs;

/* Offsets from the arena's start and the whole, in bytes. total is UINT64_MAX when the numbers do
 * not fit 64 bits or a divisor is 0; the offsets mean nothing then. */
typedef struct llmc_arena_layout {
  uint64_t blocks; /* pool blocks: ctx / kv_block, rounded up */
  uint64_t block_table, free_blocks, logits, candidates, scratch, kv_pool;
  uint64_t total;
} llmc_arena_layout;

/* a + b * c rounded up to a multiple of LLMC_ALIGNMENT; UINT64_MAX, also for a = UINT64_MAX, when
 * it does not fit. */
LLMC_ARENA_FUNCTION uint64_t llmc_arena_after(uint64_t a, uint64_t b, uint64_t c) {
  const uint64_t limit = UINT64_MAX - (LLMC_ALIGNMENT - 1);
  if (a > limit) return UINT64_MAX;
  if (b != 0 && c > (limit - a) / b) return UINT64_MAX;
  return (a + b * c + (LLMC_ALIGNMENT - 1)) / LLMC_ALIGNMENT * LLMC_ALIGNMENT;
}

LLMC_ARENA_FUNCTION llmc_arena_layout llmc_arena_layout_of(llmc_arena_needs needs) {
  llmc_arena_layout at = {0, 0, 0, 0, 0, 0, 0, UINT64_MAX};
  if (needs.kv_block == 0) return at;
  at.blocks = needs.ctx; /* 64 bits before the sum: ctx may be near 2^32 */
  at.blocks = (at.blocks + needs.kv_block - 1) / needs.kv_block;
  at.block_table = LLMC_SESSION_BYTES;
  at.free_blocks = llmc_arena_after(at.block_table, at.blocks, sizeof(uint32_t));
  at.logits = llmc_arena_after(at.free_blocks, at.blocks, sizeof(uint32_t));
  at.candidates = llmc_arena_after(at.logits, needs.vocab, sizeof(float));
  at.scratch = llmc_arena_after(at.candidates, needs.vocab, LLMC_CANDIDATE_BYTES);
  at.kv_pool = llmc_arena_after(at.scratch, needs.scratch_bytes, 1);
  at.total = llmc_arena_after(at.kv_pool, at.blocks, needs.kv_block_bytes);
  return at;
}

LLMC_ARENA_FUNCTION llmc_arena_layout llmc_arena_layout_of_model(const llmc_model* model) {
  llmc_arena_needs needs = {model->vocab, model->ctx, model->kv_block, model->scratch_bytes,
                            model->kv_block_bytes};
  return llmc_arena_layout_of(needs);
}

#endif /* LLMC_ARENA_H */

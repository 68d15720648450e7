/*
 * The tables of a grammar: written by runtime/hosted/grammar, read by llmc_grammar_init.
 * docs/grammar.md explains them. All numbers are little-endian.
 *
 * The tables describe a pushdown automaton over bytes. After the header follow, in this order and
 * without gaps:
 *
 *     states      llmc_grammar_state[states + 1]
 *     edges       llmc_grammar_edge[edges]
 *     frames      u32[frames]            states that edges push; edges may share a list
 *     contexts    llmc_grammar_context[contexts + 1]
 *     masks       llmc_grammar_mask[masks + 1]
 *     bitmaps     u32[bitmaps][(vocab + 31) / 32]
 *     flips       u32[flips]             token ids
 *     dependents  u32[dependents]        token ids
 *     stops       u32[stops]             token ids that end a text
 *     offsets     u32[vocab + 1]         where each token's bytes begin in text
 *     text        u8[text_bytes], then zeros up to a multiple of 4
 */
#ifndef LLMC_GRAMMAR_H
#define LLMC_GRAMMAR_H

#include <stdint.h>

/* The last character is the format's version. */
#define LLMC_GRAMMAR_MAGIC "llmcgrm2"

typedef struct llmc_grammar_header {
  char magic[8];            /* LLMC_GRAMMAR_MAGIC without its terminating zero */
  uint64_t bytes;           /* total size, including this header */
  uint64_t hash;            /* llmc_grammar_hash of everything after this field, from
                               LLMC_GRAMMAR_HASH_START */
  uint64_t vocabulary_hash; /* hash of offsets and text, that is, of the tokens for which the
                               tables were made; must be equal to llmc_model.vocabulary_hash
                               unless that is 0 */
  uint32_t vocab;           /* number of token ids */
  uint32_t start;           /* start state */
  uint32_t states, edges, frames, contexts, masks, bitmaps, flips, dependents, stops, text_bytes;
} llmc_grammar_header;

/* A state. The lists of an entry end where the lists of the next entry begin. The last entry is a
 * sentinel. */
typedef struct llmc_grammar_state {
  uint32_t first_edge;
  uint32_t first_context;
  uint32_t mask_accept; /* mask * 2 + 1 if the rule may end in this state (which pops the top
                           frame), else mask * 2 */
  uint32_t room; /* upper bound for reading one token with any stack: simultaneous paths + 256 *
                    pushed frames; LLMC_GRAMMAR_ROOM_UNKNOWN: no bound is known */
} llmc_grammar_state;

/* A transition: bytes low .. high lead to `target` and push frames[first_frame .. first_frame +
 * frame_count); the last of these is the top. */
typedef struct llmc_grammar_edge {
  uint8_t low, high;
  uint16_t frame_count;
  uint32_t target;
  uint32_t first_frame;
} llmc_grammar_edge;

/* The mask of a state when `frame` is on top of the stack, and a list of contexts for the frame
 * below it. If that frame is not in the list, `mask` applies. */
typedef struct llmc_grammar_context {
  uint32_t frame;
  uint32_t first_context;
  uint32_t mask;
} llmc_grammar_context;

/* The tokens that a state allows with any stack (in a context: with any stack whose top frames are
 * the context's): those of bitmap `base - 1` (base 0: none), inverted for each token in the list of
 * flips. Whether a token in the list of dependents is allowed depends on the rest of the stack. All
 * other tokens are not allowed. */
typedef struct llmc_grammar_mask {
  uint32_t base;
  uint32_t first_flip;
  uint32_t first_dependent;
} llmc_grammar_mask;

#define LLMC_GRAMMAR_ROOM_UNKNOWN 255u

/* Returns `hash` updated with words[0 .. count): FNV-1a over 4-byte words instead of bytes, with a
 * shift that mixes the high bits into the low bits. */
#ifdef __cplusplus
inline
#else
static inline
#endif
    uint64_t
    llmc_grammar_hash(uint64_t hash, const uint32_t* words, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    hash = (hash ^ words[i]) * 0x100000001B3u;
    hash ^= hash >> 29;
  }
  return hash;
}
#define LLMC_GRAMMAR_HASHED_FROM 24u /* offset of the first byte that header.hash covers */
#define LLMC_GRAMMAR_HASH_START 0xCBF29CE484222325u

#endif /* LLMC_GRAMMAR_H */

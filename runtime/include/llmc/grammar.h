/*
 * The tables of a grammar: what runtime/hosted/grammar makes and llmc_grammar_init reads.
 * docs/grammar.md says what they mean. All numbers are little-endian.
 *
 * A pushdown automaton over bytes. Behind the header, in this order and without gaps:
 *
 *   states      llmc_grammar_state[states + 1]
 *   edges       llmc_grammar_edge[edges]
 *   frames      u32[frames]            states that edges push, lists that edges share
 *   contexts    llmc_grammar_context[contexts + 1]
 *   masks       llmc_grammar_mask[masks + 1]
 *   bitmaps     u32[bitmaps][(vocab + 31) / 32]
 *   flips       u32[flips]             token ids
 *   dependents  u32[dependents]        token ids
 *   stops       u32[stops]             token ids that end a text
 *   offsets     u32[vocab + 1]         where each token's bytes begin in text
 *   text        u8[text_bytes], then zeros up to a multiple of 4
 */
#ifndef LLMC_GRAMMAR_H
#define LLMC_GRAMMAR_H

#include <stdint.h>

/* The last character is the format's version. */
#define LLMC_GRAMMAR_MAGIC "llmcgrm2"

typedef struct llmc_grammar_header {
  char magic[8];            /* LLMC_GRAMMAR_MAGIC without its zero */
  uint64_t bytes;           /* of everything, this header included */
  uint64_t hash;            /* of what follows this number: llmc_grammar_hash */
  uint64_t vocabulary_hash; /* of the tokens the tables were made for: of offsets and text; a model
                               with another one refuses them (llmc_model.vocabulary_hash) */
  uint32_t vocab;           /* ids are below it */
  uint32_t start;           /* state */
  uint32_t states, edges, frames, contexts, masks, bitmaps, flips, dependents, stops, text_bytes;
} llmc_grammar_header;

/* An entry's lists end where the next entry's begin; the last entry is there for that alone. */
typedef struct llmc_grammar_state {
  uint32_t first_edge;
  uint32_t first_context;
  uint32_t mask_accept; /* mask * 2 + (1 when the rule may end here: the top frame is popped) */
  uint32_t room; /* what reading a token takes at most, whatever is on the stack: ways that are
                    open at once + 256 * frames pushed; LLMC_GRAMMAR_ROOM_UNKNOWN: anything */
} llmc_grammar_state;

/* Bytes low .. high lead to `target` and push frames[first_frame .. +count), the last on top. */
typedef struct llmc_grammar_edge {
  uint8_t low, high;
  uint16_t frame_count;
  uint32_t target;
  uint32_t first_frame;
} llmc_grammar_edge;

/* A state's mask where `frame` is on top of the stack, and the contexts with the frame below that
 * one, if it is known, too. Of a frame that is not in the list, what is known without it holds. */
typedef struct llmc_grammar_context {
  uint32_t frame;
  uint32_t first_context;
  uint32_t mask;
} llmc_grammar_context;

/* Tokens that a state allows whatever is on the stack: those of bitmap `base - 1` (of none when
 * base is 0), each of the flips the other way round. Whether a dependent is allowed depends on the
 * stack. Tokens in neither are not allowed. */
typedef struct llmc_grammar_mask {
  uint32_t base;
  uint32_t first_flip;
  uint32_t first_dependent;
} llmc_grammar_mask;

#define LLMC_GRAMMAR_ROOM_UNKNOWN 255u

/* FNV-1a's step on words of 4 bytes instead of bytes, with a shift that brings high bits down. */
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
#define LLMC_GRAMMAR_HASHED_FROM 24u /* bytes before what header.hash is of */
#define LLMC_GRAMMAR_HASH_START 0xCBF29CE484222325u

#endif /* LLMC_GRAMMAR_H */

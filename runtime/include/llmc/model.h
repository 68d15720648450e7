/*
 * Between a compiled model's code and the runtime core. An application needs llmc.h only.
 */
#ifndef LLMC_MODEL_H
#define LLMC_MODEL_H

#include "llmc/llmc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever llmc_run, llmc_model, the cache layout or the arena's layout change. */
#define LLMC_MODEL_ABI 6u

/* Consecutive rows of a run that continue one sequence. Only what depends on a token's position
 * looks at it; everything else is computed row by row. */
typedef struct llmc_segment {
  /* The block of each kv_block tokens, for every position up to position + rows - 1; 64-byte
   * aligned, anywhere. Those that hold positions to be written belong to this segment alone; the
   * others are only read. Slots not stored yet hold garbage, NaN bits included. */
  unsigned char* const* blocks;
  uint32_t row;      /* the first of them */
  uint32_t rows;     /* at least 1 */
  uint32_t position; /* of the first row's token; position + rows <= ctx */
  uint32_t reserved;
} llmc_segment;

/* One call into the model. The core fills it; kernels read it. */
typedef struct llmc_run {
  const int32_t* tokens;          /* [count], each in 0 .. vocab-1 */
  const llmc_segment* segments;   /* [segment_count], of different sequences; their rows follow each
                                     other from 0 to count - 1 */
  uint32_t segment_count;         /* 1 .. batch */
  uint32_t count;                 /* 1 .. chunk */
  unsigned char* scratch;         /* [scratch_bytes], 64-byte aligned */
  const unsigned char* weights;   /* [weights_bytes], 64-byte aligned */
  uint32_t threads;               /* worker slots, 1 .. threads_max */
  llmc_parallel_for parallel_for; /* never NULL here */
  void* user;                     /* its first argument */
  uint32_t uneven;                /* not 0: workers take tickets, for cores of different speed */
} llmc_run;

/* A compiled model: constants, where its data is, and functions. A model NAME defines `const
 * llmc_model NAME_model` with external C linkage; NAME_init passes it to llmc_session_init. */
struct llmc_model {
  uint32_t abi;  /* LLMC_MODEL_ABI */
  uint32_t size; /* sizeof(llmc_model) */
  const char* name;
  const char* target; /* "avx2", … for messages */

  uint32_t vocab, hidden, layers, heads, kv_heads, head_dim;
  uint32_t ctx;          /* most tokens of a sequence */
  uint32_t sequences;    /* most sequences of a session */
  uint32_t batch;        /* most segments of one forward and rows of one head; at most chunk */
  uint32_t chunk;        /* most tokens of one forward */
  uint32_t kv_block;     /* tokens of a cache block */
  uint32_t pool_blocks;  /* blocks in the arena, for all sequences together */
  uint32_t threads_max;  /* worker slots that scratch_bytes is for */
  uint32_t uneven_cores; /* not 0: the target's cores differ in speed, as a rule */

  uint64_t weights_bytes;  /* without the header of a weights file */
  uint64_t weights_hash;   /* of those bytes; names the model a weights file belongs to */
  uint64_t program_hash;   /* of all else that what it computes depends on: stages, constants */
  uint64_t scratch_bytes;  /* multiple of 64 */
  uint64_t hidden_offset;  /* in scratch: the last layer's rows of a forward, f32[chunk][hidden] */
  uint64_t kv_token_bytes; /* of a token in a saved state: all layers, without padding */
  uint32_t kv_format;      /* how K and V are stored; 0: f32 */
  uint32_t prefix_tokens;  /* what sequences begin with, already computed; at most ctx */
  uint64_t kv_block_bytes; /* LLMC_KV_TOKENS_BYTES(kv_block), then all layers; multiple of 64 */
  uint64_t arena_bytes;    /* llmc_arena_layout_of(…).total: NAME_ARENA_BYTES */

  const unsigned char* weights; /* embedded, 64-byte aligned; NULL: given with llmc_config */

  int (*cpu_supported)(void); /* NULL: any CPU of the architecture; 0: refuse with LLMC_ERROR_CPU */
  /* Runs the rows and stores their K and V. The last layer's rows stay in scratch, untouched by
   * head, until the next forward. */
  void (*forward)(const llmc_run* run);
  /* Logits after the tokens that left `rows`, f32[count][hidden], the last layer's rows of this or
   * an earlier forward; count is 1 .. batch. logits: f32[count][vocab]. best[i]: the first of the
   * largest logits of row i, NaN aside; 0 when all are NaN or -infinity. Of `run` only what all
   * runs have in common is looked at: scratch, weights, threads. */
  void (*head)(const llmc_run* run, const float* rows, uint32_t count, float* logits,
               uint32_t* best);
  /* K and V of the tokens in slots first .. first + count - 1 of a block, to or from
   * [count][kv_token_bytes]: the form of saved states, which is the same for every target and
   * block size. */
  void (*kv_save)(const unsigned char* block, uint32_t first, uint32_t count, unsigned char* to);
  void (*kv_load)(unsigned char* block, uint32_t first, uint32_t count, const unsigned char* from);

  /* With prefix_tokens: their blocks, one after the other, 64-byte aligned, only read. */
  const unsigned char* prefix_blocks;
  const float* prefix_row; /* f32[hidden]: the last layer's row of the last one; NULL: not known */

  /* llmc_grammar_header.vocabulary_hash of grammars made for its tokenizer; 0: it has none. */
  uint64_t vocabulary_hash;
};

/* A saved state, little-endian: this header, then, each padded with zeros to a multiple of 64
 * bytes, the ids int32_t[tokens], with has_row the last layer's row of the last token f32[hidden],
 * what kv_save gives of all tokens, and mirostat's state after each token float[tokens]: where they
 * are says llmc_state_layout_of (arena.h). Without has_row (behind a rewind) there are no logits
 * until a token is appended. Equal for equal tokens, equal states of mirostat and equal has_row. */
#define LLMC_STATE_VERSION 3u
typedef struct llmc_state_header {
  char magic[8];     /* "llmcstat" without its zero */
  uint64_t checksum; /* XXH64 of all bytes but these, seeded with that of magic */
  uint32_t version;  /* LLMC_STATE_VERSION */
  uint32_t tokens;
  uint32_t has_row;
  uint32_t kv_format;
  uint64_t bytes; /* of the whole */
  uint64_t weights_hash, weights_bytes, program_hash, token_bytes;
  uint32_t vocab, hidden, layers, heads, kv_heads, head_dim;
  unsigned char zero[32];
} llmc_state_header;

/* Every block of the cache begins with what the core knows of its tokens: their ids, then the
 * sampler's state after each, int32_t[kv_block] and float[kv_block]; the model's K and V follow at
 * this many bytes. */
#define LLMC_KV_TOKENS_BYTES(kv_block) (((uint64_t)(kv_block) * 8 + 63) / 64 * 64)

/* The first 64 bytes of NAME.weights.bin, little-endian; the weights follow. */
#define LLMC_WEIGHTS_MAGIC "llmcwts1"
typedef struct llmc_weights_header {
  char magic[8];  /* LLMC_WEIGHTS_MAGIC without its zero */
  uint64_t bytes; /* weights_bytes: the file is this + 64 long */
  uint64_t hash;  /* weights_hash */
  unsigned char zero[40];
} llmc_weights_header;

#ifdef __cplusplus
}
#endif

#endif /* LLMC_MODEL_H */

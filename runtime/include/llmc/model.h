/* Interface between a compiled model's code and the runtime core. Applications need only llmc.h. */
#ifndef LLMC_MODEL_H
#define LLMC_MODEL_H

#include "llmc/llmc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. Incremented whenever llmc_run, llmc_model, the layout of the cache or
 * the layout of the arena changes. */
#define LLMC_MODEL_ABI 16u

/* Maximum of llmc_model.in_flight. */
#define LLMC_MAX_IN_FLIGHT 8u

/* Consecutive rows of a run that continue one sequence. Only stages that depend on a token's
 * position or on earlier tokens use segments; all other stages compute row by row. */
typedef struct llmc_segment {
  /* One block per kv_block tokens, for all positions up to position + rows - 1; 64-byte aligned,
   * anywhere in memory. Blocks that this run writes to belong only to this segment, or, when the
   * tokens are run again to compute the recurrent states, already contain the same bits; other
   * blocks are only read. Slots without a token contain undefined bits, which may be NaN. */
  unsigned char* const* blocks;
  uint32_t row;      /* first row */
  uint32_t rows;     /* at least 1 */
  uint32_t position; /* position of the first row's token; position + rows <= ctx */
  uint32_t last; /* position of the last token that the caller appends; it may be in a later run,
                    because runs have at most chunk rows */
  /* [state_bytes] the recurrent states after the token before position, which the run advances by
   * its rows; 64-byte aligned. NULL: the model has none. */
  unsigned char* state;
  /* Encoder-decoder: keys and values of the source that the rows attend to, which `encode` stored;
   * 64-byte aligned, only read. NULL: the model has no encoder. */
  unsigned char* source;
  uint32_t source_rows;     /* at least 1 if the model has an encoder */
  uint32_t rotary_position; /* models with position_axes: base that is added to llmc_run.positions;
                               if those are NULL, the position of the first row on all axes */
} llmc_segment;

struct llmc_device_program;

/* Arguments of one call of a model's code. The core sets them and kernels read them. */
typedef struct llmc_run {
  const int32_t* tokens;          /* [count], each in 0 .. vocab-1; with embeddings each is -1,
                                     except in a shard */
  const float* embeddings;        /* [count][embedding_width], in place of the tokens' rows of the
                                     embedding table; NULL: the tokens' rows */
  const int32_t* positions;       /* [count][position_axes], of embeddings; NULL: the rows have the
                                     positions of text */
  const llmc_segment* segments;   /* [segment_count], of different sequences; in order, they
                                     cover rows 0 to count - 1 */
  uint32_t segment_count;         /* 1 .. batch */
  uint32_t count;                 /* 1 .. chunk */
  unsigned char* scratch;         /* [scratch_bytes], 64-byte aligned */
  const unsigned char* weights;   /* [weights_bytes], 64-byte aligned */
  uint32_t threads;               /* worker slots, 1 .. threads_max */
  llmc_parallel_for parallel_for; /* never NULL here */
  void* user;                     /* first argument of parallel_for */
  uint32_t uneven;                /* non-zero: workers take ranges dynamically, because cores
                                     differ in speed */
} llmc_run;

/* A compiled model: constants, pointers to its data, and functions. A model NAME defines `const
 * llmc_model NAME_model` with external C linkage; NAME_init passes it to llmc_session_init. */
struct llmc_model {
  uint32_t abi;  /* LLMC_MODEL_ABI */
  uint32_t size; /* sizeof(llmc_model) */
  const char* name;
  const char* target; /* "avx2", …; for messages */

  uint32_t vocab, hidden, layers, heads, kv_heads, head_dim;
  uint32_t ctx;          /* maximum number of tokens of a sequence */
  uint32_t sequences;    /* maximum number of sequences of a session */
  uint32_t batch;        /* maximum number of segments per call of forward and of rows per call
                            of head; at most chunk */
  uint32_t chunk;        /* maximum number of tokens per call of forward */
  uint32_t kv_block;     /* tokens per cache block */
  uint32_t pool_blocks;  /* number of blocks in the arena, which all sequences share */
  uint32_t threads_max;  /* maximum number of worker slots; scratch_bytes depends on it */
  uint32_t uneven_cores; /* non-zero: the target's cores usually differ in speed */
  uint32_t by_length;    /* non-zero: rows depend on llmc_segment.last */

  uint64_t weights_bytes;  /* without the header of the weights file */
  uint64_t weights_hash;   /* hash of the weights; identifies the matching weights file */
  uint64_t program_hash;   /* hash of the stages and constants, which also determine the results */
  uint64_t scratch_bytes;  /* multiple of 64 */
  uint64_t hidden_offset;  /* offset in scratch of the last layer's rows after a call of forward,
                              f32[chunk][hidden] */
  uint64_t kv_token_bytes; /* bytes per token in a saved state: K and V of all layers, without
                              padding */
  uint32_t kv_format;      /* number of the format of K and V (kv_format_number); 0: both f32 */
  uint32_t prefix_tokens;  /* number of tokens of the compiled-in prompt, whose K and V are in
                              prefix_blocks; at most ctx */
  uint64_t kv_block_bytes; /* LLMC_KV_TOKENS_BYTES(kv_block) plus K and V of all layers; a
                              multiple of 64 */
  uint64_t arena_bytes;    /* llmc_arena_layout_of(…).total: NAME_ARENA_BYTES */

  /* Encoder-decoder: a source is n token ids, or source_width features for each of n frames
   * (samples of sound with one feature, columns of a spectrogram or an image). */
  uint32_t source_min, source_max; /* limits of n; 0: the model is a decoder */
  uint32_t source_width;           /* features of a frame; 0: a source is token ids */
  uint32_t source_vocab;           /* ids of a source are 0 .. source_vocab - 1; 0: features */
  uint32_t sources;                /* number of sources in the arena. 1: all sequences attend to
                                      the same one; 0: the model is a decoder */
  uint64_t source_bytes;           /* size of llmc_segment::source; a multiple of 64 */
  uint32_t embedding_width;        /* elements of a row of llmc_run::embeddings; 0: forward ignores
                                      them */

  uint32_t position_axes; /* positions of each token (llmc_append_embeddings_at); 0: one,
                             its place in the sequence */

  /* Media encoder (images or sounds): number of its inputs, number of the sizes that a call passes,
   * and maximum number of rows that a call computes; 0: the model has none. */
  uint32_t image_inputs, image_dims, image_rows;

  /* Size of the recurrent states of one sequence: a multiple of 64; 0: the model has none. They are
   * all zeros before the first token. A model with recurrent states has no compiled-in prompt. */
  uint64_t state_bytes;

  /* Steps of the forward pass, for accelerators (device.h). step_regions, [steps]: 0 for steps of
   * the CPU, otherwise the number of the region. in_flight: maximum number of chunks of a prompt
   * that are computed at the same time, each with a separate scratch buffer. steps is 0, and
   * in_flight 1, without --accelerate. */
  uint32_t steps, in_flight;
  /* Index of this shard, and number of shards (shards.h). shards is 0 for a whole model.
   */
  uint32_t shard, shards;
  const uint16_t* step_regions;
  const struct llmc_device_program* device_program; /* what the regions compute; NULL: steps is 0 */

  const unsigned char* weights; /* embedded weights, 64-byte aligned; NULL: llmc_config contains
                                   them */

  int (*cpu_supported)(void); /* returns whether this CPU can run the code; if not,
                                 llmc_session_init returns LLMC_ERROR_CPU; NULL: any CPU of the
                                 architecture can */
  /* Runs the model for the rows and stores their K and V. The last layer's rows stay in scratch
   * until the next call; head does not change them. */
  void (*forward)(const llmc_run* run);
  /* Runs one step of forward. Running all of them in order is the same as forward. A step of the
   * CPU may run when the previous chunk has completed the same step. NULL: steps is 0. */
  void (*run_step)(const llmc_run* run, uint32_t step);
  /* llmc_run_in_flight if steps is not 0, otherwise NULL: programs whose models have no steps do
   * not contain the function. */
  llmc_status (*run_in_flight)(llmc_session* session, void* call);
  /* Computes the logits, f32[count][vocab], of `rows`, f32[count][hidden], which are the last
   * layer's rows of any earlier call of forward; count is 1 .. batch. best[i] is the index of the
   * first maximum of row i, ignoring NaN; 0 if all logits are NaN or -infinity. Does not use the
   * fields of `run` that describe its rows, such as tokens, segments and count, only scratch,
   * weights and workers. NULL: a shard other than the last one. */
  void (*head)(const llmc_run* run, const float* rows, uint32_t count, float* logits,
               uint32_t* best);
  /* Returns the index that head would store in best for one row. Stores its logit in *logit, or
   * -infinity if all logits are NaN or -infinity. Reads only the upper bits of panels (8 rows of
   * the matrix) whose upper bounds exclude the largest logit. Sets *computed to the number of rows
   * in the other panels.
   * `room`, float[vocab], is scratch memory. NULL: the format of the head's matrix does not support
   * this. */
  uint32_t (*choose)(const llmc_run* run, const float* row, float* room, float* logit,
                     uint32_t* computed);
  /* Encoder-decoder: runs the encoder on `input`, int32_t[n] or float[source_width * n], n in
   * source_min .. source_max, and stores keys and values of all layers in `source`
   * (llmc_segment.source). Uses scratch and workers of `run`. Returns the number of encoded rows,
   * or 0 if an index that the encoder computes is outside its table. NULL: the model has no
   * encoder. */
  uint32_t (*encode)(const llmc_run* run, const void* input, uint32_t n, unsigned char* source);
  /* Runs the media encoder on the inputs, [image_inputs] tensors, and stores float[n][
   * embedding_width] in `rows`. `dims`: [image_dims] sizes; NULL: their upper bounds. Uses scratch
   * and workers of `run`. Returns n, or 0 if an input is NULL, a size is out of range, or an index
   * that the encoder computes is outside its table. NULL: the model has no media encoder. */
  uint32_t (*encode_image)(const llmc_run* run, const void* const* inputs, const int64_t* dims,
                           float* rows);
  /* Convert K and V of the tokens in slots first .. first + count - 1 of a block to and from the
   * format of saved states, [count][kv_token_bytes], which is the same for every target and block
   * size. */
  void (*kv_save)(const unsigned char* block, uint32_t first, uint32_t count, unsigned char* to);
  void (*kv_load)(unsigned char* block, uint32_t first, uint32_t count, const unsigned char* from);

  /* If prefix_tokens > 0: the blocks of the compiled-in prompt, contiguous, 64-byte aligned,
   * read-only. */
  const unsigned char* prefix_blocks;
  const float* prefix_row; /* f32[hidden]: the last layer's row of the prompt's last token; NULL:
                              unknown */

  /* vocabulary_hash of grammars that are made for the model's tokenizer; 0: the model has no
   * tokenizer. */
  uint64_t vocabulary_hash;
};

/* Header of a saved state, little-endian. The following parts come after it, each padded with zeros
 * to a multiple of 64 bytes (llmc_state_layout_of in arena.h gives their offsets):
 *  - ids, int32_t[tokens]: negative for an embedding (-1 unless the model has position_axes)
 *  - if has_row: the last layer's row of the last token, f32[hidden]
 *  - if state_bytes is not 0: the recurrent states after the last token, state_bytes bytes
 *  - the bytes that kv_save writes for all tokens
 *  - mirostat's state after each token, float[tokens]
 * Without has_row (after a rewind) there are no logits until a token is appended. Without the
 * recurrent states (after a rewind, or without a token) they are computed from the tokens. For one
 * model, states with equal sources, tokens, embeddings, positions, mirostat states, has_row and
 * state_bytes are identical bytes. */
#define LLMC_STATE_VERSION 3u
typedef struct llmc_state_header {
  char magic[8];     /* "llmcstat" without its terminating zero */
  uint64_t checksum; /* XXH64 of all bytes after this field, seeded with the XXH64 of magic */
  uint32_t version;  /* LLMC_STATE_VERSION */
  uint32_t tokens;
  uint32_t has_row;
  uint32_t kv_format;
  uint64_t bytes; /* total size */
  uint64_t weights_hash, weights_bytes, program_hash, token_bytes;
  uint32_t vocab, hidden, layers, heads, kv_heads, head_dim;
  uint64_t source_hash; /* encoder-decoder: XXH64 of the source's ids or features; 0: none */
  uint64_t state_bytes; /* llmc_model.state_bytes, or 0 if they are not in the saved state */
  unsigned char zero[16];
} llmc_state_header;

/* Size of the data at the start of every cache block, which the core stores about its tokens:
 * int32_t[kv_block] ids and float[kv_block] states of mirostat after each token. The model's K and
 * V begin at this offset. */
#define LLMC_KV_TOKENS_BYTES(kv_block) (((uint64_t)(kv_block) * 8 + 63) / 64 * 64)

/* The first 64 bytes of NAME.weights.bin, little-endian; the weights follow. */
#define LLMC_WEIGHTS_MAGIC "llmcwts1"
typedef struct llmc_weights_header {
  char magic[8];  /* LLMC_WEIGHTS_MAGIC without its terminating zero */
  uint64_t bytes; /* weights_bytes; the file is 64 bytes longer */
  uint64_t hash;  /* weights_hash */
  unsigned char zero[40];
} llmc_weights_header;

/* Runs the chunks of a call with the session's device; for llmc_model.run_in_flight. */
llmc_status llmc_run_in_flight(llmc_session* session, void* call);

#ifdef __cplusplus
}
#endif

#endif /* LLMC_MODEL_H */

/*
 * llmc: the C interface of a compiled language model. C99 or C++; no other header is needed.
 *
 *     static _Alignas(LLMC_ALIGNMENT) unsigned char arena[NAME_ARENA_BYTES];
 *     llmc_session* session;
 *     llmc_status status = NAME_init(&session, arena, sizeof arena, NULL);
 *     status = llmc_prefill(session, prompt, prompt_count, NULL);
 *     while (status == LLMC_OK) status = llmc_step(session, &token);
 *
 * Rules for all functions:
 *  - They do not allocate, do no I/O, use no global state and never abort; every failure is a
 *    status.
 *  - On an error, except in llmc_encode…(), position, cache, logits and sampling are unchanged.
 *  - A session is used by one thread at a time; different sessions are independent.
 *  - Equal tokens give equal bits for any number of threads, any chunk size and any target, in the
 *    default floating-point mode: round to nearest, subnormals kept. Functions that compute check
 *    the mode of the calling thread (LLMC_ERROR_FLOAT_MODE, or NULL for logits).
 *  - A callback may read numbers and tokens of its session (functions that take it as const). All
 *    other functions return LLMC_ERROR_BUSY, or NULL, and write nothing, not even `done`.
 */
#ifndef LLMC_LLMC_H
#define LLMC_LLMC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default) /* export these even with -fvisibility=hidden */
#endif

/* Required alignment of an arena and of external weights, in bytes. */
#define LLMC_ALIGNMENT 64

typedef enum llmc_status {
  LLMC_OK = 0,
  LLMC_ERROR_ARGUMENT = 1,        /* a required pointer is NULL or a number is invalid */
  LLMC_ERROR_VERSION = 2,         /* versions differ, or a reserved or newer field is not zero */
  LLMC_ERROR_MODEL = 3,           /* the model descriptor is inconsistent */
  LLMC_ERROR_ARENA_SMALL = 4,     /* fewer bytes than NAME_ARENA_BYTES */
  LLMC_ERROR_ARENA_ALIGNMENT = 5, /* the arena's address is not a multiple of LLMC_ALIGNMENT */
  LLMC_ERROR_CPU = 6,             /* the CPU lacks instructions that the model was compiled for */
  LLMC_ERROR_WEIGHTS = 7,         /* weights are missing, misaligned, or belong to another model */
  LLMC_ERROR_THREADS = 8,         /* more threads than the model was compiled for */
  LLMC_ERROR_SAMPLING = 9,        /* a sampling parameter is NaN or out of range */
  LLMC_ERROR_TOKEN = 10,          /* a token id outside the vocabulary */
  LLMC_ERROR_CONTEXT_FULL = 11,   /* the context has no room for these tokens */
  LLMC_ERROR_POSITION = 12,       /* a position after the end of the sequence or out of range */
  LLMC_ERROR_NO_LOGITS = 13,      /* no tokens were run since init, reset or rewind */
  LLMC_ERROR_NOT_FINITE = 14,     /* logits have no finite maximum, or an embedding is not finite */
  LLMC_ERROR_CANCELLED = 15,      /* the cancel callback returned non-zero */
  LLMC_ERROR_BUSY = 16,           /* called from inside a callback of the same session */
  LLMC_ERROR_FLOAT_MODE = 17,     /* the calling thread is not in the default floating-point mode */
  LLMC_ERROR_SEQUENCE = 18,       /* no such sequence, or no room for another one */
  LLMC_ERROR_POOL_FULL = 19,      /* too few free KV blocks, or all sources are in use */
  LLMC_ERROR_STATE = 20,          /* the data is damaged or not a saved state */
  LLMC_ERROR_STATE_MODEL = 21,    /* the saved state belongs to another model or cache format */
  LLMC_ERROR_NO_CANDIDATE = 24,   /* logit bias and grammar leave no token to choose from */
  LLMC_ERROR_GRAMMAR_TABLES = 25, /* grammar tables are damaged or made for another vocabulary */
  LLMC_ERROR_GRAMMAR = 26,        /* the grammar does not allow a token at its place */
  LLMC_ERROR_GRAMMAR_DEPTH = 27,  /* nesting is too deep, or the text has too many parses */
  LLMC_ERROR_SOURCE = 28,         /* no source, not the saved state's source, or no encoder */
  LLMC_ERROR_EMBEDDINGS = 29,     /* not supported, or cannot be run again: embeddings.h */
  LLMC_ERROR_DEVICE = 30,         /* no accelerator for this model, or it failed: device.h */
  LLMC_ERROR_SHARD = 31,          /* call for a whole model on a shard, or vice versa: shards.h */
  LLMC_ERROR_BUFFER = 35,         /* the caller's buffer is too small */
  /* Returned only by the hosted library (hosted.h). */
  LLMC_ERROR_FILE = 32,   /* a file cannot be opened, read or mapped */
  LLMC_ERROR_FORMAT = 33, /* the content of a file or of a given text is invalid */
  LLMC_ERROR_MEMORY = 34  /* out of memory or threads */
} llmc_status;

/* Returns one English sentence for a status, without a full stop. Never NULL. */
const char* llmc_status_text(llmc_status status);

/* Calls fn(arg, i) exactly once for every i in 0 .. n-1, in parallel if possible. Returns after all
 * calls have returned and their writes are visible to the caller. Must not fail. */
typedef void (*llmc_parallel_for)(void* user, void (*fn)(void* arg, uint32_t i), void* arg,
                                  uint32_t n);

/* Stages of the sampler, for llmc_sampling.samplers. */
enum {
  LLMC_SAMPLER_PENALTIES = 1,
  LLMC_SAMPLER_DRY = 2,
  LLMC_SAMPLER_TOP_K = 3,
  LLMC_SAMPLER_TFS_Z = 4,
  LLMC_SAMPLER_TYPICAL_P = 5,
  LLMC_SAMPLER_TOP_P = 6,
  LLMC_SAMPLER_MIN_P = 7,
  LLMC_SAMPLER_XTC = 8,
  LLMC_SAMPLER_TEMPERATURE = 9
};

/* Parameters for choosing the next token, with the names, meanings and order of llama.cpp. All
 * zero: greedy. Each stage processes the candidates that the stages before it left; after the last
 * stage one token is drawn at random. Most stages are off if their parameter is zero. The default
 * order is that of the enumeration above. docs/sampling.md describes the stages. */
typedef struct llmc_sampling {
  uint64_t seed;     /* a choice depends only on the seed, the position, the logits, the previous
                        tokens and the settings of the sequence, so it can be repeated */
  float temperature; /* <= 0: greedy with any order of stages: the most likely remaining token,
                        the lowest id if several are equally likely */
  int32_t top_k;     /* keep the k most likely tokens; <= 0: all */
  float top_p;       /* keep the smallest set of most likely tokens with a total probability of at
                        least p; off unless 0 < p < 1 */
  float min_p;     /* keep tokens that are at least min_p times as likely as the most likely token;
                      <= 0: all */
  float tfs_z;     /* tail-free sampling: remove the tail, where the curvature of the
                      probabilities vanishes; off unless 0 < z < 1 */
  float typical_p; /* keep the most typical tokens with this total probability; off unless 0 < p
                      < 1 */
  float xtc_probability;   /* XTC: the probability that XTC is applied at a position */
  float xtc_threshold;     /* XTC: remove all tokens with at least this probability except the
                              least likely of them; above 0.5: off */
  int32_t repeat_last_n;   /* window of the next three parameters, in tokens; 0: none, -1: all */
  float repeat_penalty;    /* > 1: tokens in the window become less likely; 0 and 1: off */
  float frequency_penalty; /* subtracted from a token's logit for each occurrence in the window */
  float presence_penalty;  /* subtracted once if the token occurs in the window */
  float dry_multiplier;    /* DRY: subtracts multiplier * base^(length - allowed_length) from the
                              logit of a token that extends a repetition of `length` tokens; 0:
                              off */
  float dry_base;          /* base of that power; below 1: off */
  int32_t dry_allowed_length; /* shorter repetitions are not penalized */
  int32_t dry_penalty_last_n; /* DRY's window, in tokens; 0: none, -1: all */
  int32_t mirostat;      /* version of mirostat, 1 or 2, which replaces all stages except penalties,
                            dry and temperature; 0: off */
  float mirostat_lr;     /* learning rate of mirostat */
  float mirostat_ent;    /* target surprise, in bits per token */
  uint8_t samplers[16];  /* LLMC_SAMPLER_… in order, terminated by 0; penalties and dry must be
                            the first; empty: the default order */
  uint32_t reserved[23]; /* must be zero; reserved for parameters of later stages */
} llmc_sampling;

/* Orders of stages for llmc_sampling_order: llama.cpp's order of 2024 (penalties, top_k, tfs_z,
 * typical_p, top_p, min_p, temperature) and its present order (penalties, dry, top_k, typical_p,
 * top_p, min_p, xtc, temperature). The default order is compatible with both. */
enum { LLMC_SAMPLERS_DEFAULT = 0, LLMC_SAMPLERS_2024 = 1, LLMC_SAMPLERS_TODAY = 2 };

enum { LLMC_LOG_ERROR = 0, LLMC_LOG_WARNING = 1, LLMC_LOG_INFO = 2 };

/* Whether the cores that parallel_for uses have the same speed. With even cores, each thread
 * computes one equal range of a stage. With uneven cores (big.LITTLE), each thread repeatedly takes
 * a small range. Affects speed, never results. */
enum { LLMC_CORES_OF_TARGET = 0, LLMC_CORES_EVEN = 1, LLMC_CORES_UNEVEN = 2 };

/* What happens when the context is full: return LLMC_ERROR_CONTEXT_FULL, or call llmc_slide
 * automatically. */
enum { LLMC_FULL_STATUS = 0, LLMC_FULL_SLIDE = 1 };

/* What each sequence begins with: the compiled-in prompt, if any, or nothing. */
enum { LLMC_BEGIN_PROMPT = 0, LLMC_BEGIN_EMPTY = 1 };

/* Optional settings. Zero the struct, set `size`, then the fields you need. NULL: all defaults. */
typedef struct llmc_config {
  size_t size;      /* sizeof(llmc_config) */
  uint32_t threads; /* worker slots; 0: one or, with parallel_for, the model's maximum */
  uint32_t chunk;   /* maximum prompt tokens per forward pass; 0: the model's. No effect on bits */
  llmc_parallel_for parallel_for; /* NULL: everything runs on the calling thread */
  void* parallel_user;
  int (*cancel)(void* user); /* called before each chunk and step (once if the context slides);
                                non-zero: the call returns LLMC_ERROR_CANCELLED */
  void* cancel_user;
  void (*log)(void* user, int level, const char* text); /* receives one line; may be NULL */
  void* log_user;
  const void* weights; /* NAME.weights.bin, if the weights are not embedded; must stay valid */
  size_t weights_bytes;
  llmc_sampling sampling;
  uint32_t cores;             /* LLMC_CORES_…; 0: the default of the model's target */
  uint32_t full_context;      /* LLMC_FULL_…; batches always return LLMC_ERROR_CONTEXT_FULL */
  uint32_t keep_first;        /* LLMC_FULL_SLIDE: number of leading tokens that are never dropped */
  uint32_t slide_tokens;      /* minimum number of tokens dropped after them; 0: half of the rest */
  uint32_t begin;             /* LLMC_BEGIN_… */
  uint32_t device_timeout_ms; /* limit of a wait for the device; then the CPU computes; 0: none */
  const struct llmc_device* device; /* accelerator for prompts (device.h); must stay valid */
} llmc_config;

typedef struct llmc_session llmc_session; /* stored in the arena; needs no destruction */
typedef struct llmc_model llmc_model;     /* a compiled model; see model.h */

/* Creates a session in arena[0 .. bytes). NAME_init of a compiled model calls this function with
 * its model. `config` is copied, but the data that it points to is not. On an error *session is
 * NULL. */
llmc_status llmc_session_init(const llmc_model* model, void* arena, size_t bytes,
                              const llmc_config* config, llmc_session** session);

/* Encoder-decoders: encode a source of `n` token ids, or of `n` frames of features in the order
 * that NAME.h gives (samples of sound have width 1). If NAME_SOURCES is 1, all sequences attend to
 * it until the next call, and their tokens are dropped. Otherwise only the selected sequence
 * attends to it, and its tokens are dropped; forks share it. LLMC_ERROR_SOURCE: the model has no
 * encoder of ids, or of features; also returned by calls that need a source. LLMC_ERROR_POOL_FULL:
 * other sequences use all sources. LLMC_ERROR_CONTEXT_FULL: more than the limit. LLMC_ERROR_TOKEN:
 * an id is too large. LLMC_ERROR_ARGUMENT: less than the minimum, or an index that the encoder
 * computes is outside its table; only in the latter case the old source and tokens are lost. */
llmc_status llmc_encode(llmc_session* session, const int32_t* ids, size_t n);
llmc_status llmc_encode_features(llmc_session* session, const float* features, size_t n);
size_t llmc_source_size(const llmc_session* session);    /* encoded rows; 0: none */
size_t llmc_source_minimum(const llmc_session* session); /* of n; 0: no encoder */
size_t llmc_source_limit(const llmc_session* session);   /* of n; 0: no encoder */
size_t llmc_source_width(const llmc_session* session);   /* features of a frame; 0: ids */

/* Appends `n` tokens, after which there are logits. `done` (may be NULL) receives the number of
 * these tokens in the cache. It grows after each chunk, so that a cancel callback can show how far
 * it is; at the end it is n, or 0 on an error: a failed prompt is rolled back. Split prompts give
 * the same bits, unless positions are scaled by a call's length (LongRoPE). n = 0: no effect. */
llmc_status llmc_prefill(llmc_session* session, const int32_t* tokens, size_t n, size_t* done);

/* Chooses the next token from the logits and appends it. */
llmc_status llmc_step(llmc_session* session, int32_t* token);

/* Perform the two halves of llmc_step: choosing a token, and appending it. llmc_sample does not
 * change the session: a second call returns the same token. Appending the token that llmc_sample
 * returned, alone or before others, updates mirostat's state; other tokens do not. A rewind
 * restores the state; appending the first dropped token again then updates it as before. */
llmc_status llmc_sample(llmc_session* session, int32_t* token);
llmc_status llmc_append(llmc_session* session, int32_t token);

/* Replaces the sampling parameters of the selected sequence. NULL: greedy. */
llmc_status llmc_set_sampling(llmc_session* session, const llmc_sampling* sampling);
/* Sets llama.cpp's defaults: temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, seed 0. Stages that
 * are off in llama.cpp are off, with the values that llama.cpp uses for this. */
void llmc_sampling_defaults(llmc_sampling* sampling);
/* Sets sampling->samplers to the order LLMC_SAMPLERS_…; other values: LLMC_ERROR_ARGUMENT. */
llmc_status llmc_sampling_order(llmc_sampling* sampling, int order);

/* Token sequences at which DRY ends a repetition, such as ends of sentences. */
typedef struct llmc_dry_breakers {
  const int32_t* heads; /* [count] first token of each breaker, ascending; may contain duplicates */
  const uint32_t* tail_begins; /* [count + 1] ascending: the other tokens of breaker i are */
  const int32_t* tails;        /* tails[tail_begins[i]] to tails[tail_begins[i + 1] - 1] */
  uint32_t count;
} llmc_dry_breakers;
/* Sets DRY's breakers. NULL: none. The arrays are not copied: they must stay valid until replaced.
 * LLMC_ERROR_SAMPLING: they are not ascending. LLMC_ERROR_TOKEN: ids outside the vocabulary. */
llmc_status llmc_set_dry_breakers(llmc_session* session, const llmc_dry_breakers* breakers);

/* A value to add to a token's logit; -infinity: the token is never chosen. */
typedef struct llmc_logit_bias {
  int32_t token;
  float bias;
} llmc_logit_bias;
/* Sets the biases that are added to the logits before all stages. Those of the same token are added
 * up. The array is not copied: biases[n] must stay valid until replaced. n = 0: none. Fails with
 * LLMC_ERROR_SAMPLING for NaN or +infinity, LLMC_ERROR_TOKEN for an id outside the vocabulary. */
llmc_status llmc_set_logit_bias(llmc_session* session, const llmc_logit_bias* biases, size_t n);

/* Enables classifier-free guidance (llama.cpp's --cfg-scale) of the selected sequence by the
 * sequence `guide`, for example one with a negative prompt. Before the bias and all stages the
 * logits become q + scale * (p - q), where p and q are the log probabilities after the selected
 * sequence and after the guide. scale > 1: away from the guide; 1: no guidance.
 * llmc_step, llmc_step_batch and the steps of speculation.h also append the chosen token to the
 * guide, in the same pass over the weights. The guide then counts as a member of the batch, and the
 * context does not slide. All other functions affect only one sequence. A fork is not guided.
 * Sampling returns LLMC_ERROR_NO_LOGITS unless the guide has logits.
 * LLMC_ERROR_SEQUENCE: there is no such sequence. LLMC_ERROR_SAMPLING: scale is not finite.
 * LLMC_ERROR_ARGUMENT: the guide is the selected sequence, guides another sequence or is guided
 * itself, the selected sequence is a guide, or the model was compiled with a batch of 1. */
llmc_status llmc_set_guidance(llmc_session* session, uint32_t guide, float scale);

/* A possible next token. */
typedef struct llmc_candidate {
  int32_t token;
  float logprob; /* natural logarithm of its probability */
} llmc_candidate;
enum {
  LLMC_CANDIDATES_MODEL = 0,  /* the model's probabilities: softmax of the logits, without
                                 guidance, bias and grammar */
  LLMC_CANDIDATES_SAMPLER = 1 /* the probabilities of the random draw, after all stages */
};
/* Writes the `n` most likely next tokens in descending order of probability; tokens with equal
 * probability by ascending id. Sets *count to their number, which is less than n if fewer tokens
 * are possible. The session is unchanged. */
llmc_status llmc_candidates(llmc_session* session, int which, llmc_candidate* candidates, size_t n,
                            size_t* count);
/* Sets *logprob to the natural logarithm of one token's probability (LLMC_CANDIDATES_MODEL). */
llmc_status llmc_logprob(llmc_session* session, int32_t token, float* logprob);

/* Returns the logits after the last token, float[llmc_vocabulary_size], or NULL if there are none.
 * Valid until the next call with this session. */
const float* llmc_logits(llmc_session* session);
/* Returns the logits after token `row` of the last chunk, for perplexity; NULL if row >=
 * llmc_last_chunk. Valid as long as those of llmc_logits. Sampling is not affected. */
const float* llmc_logits_at(llmc_session* session, size_t row);
/* Returns the logits after `rows` consecutive tokens of the last chunk, beginning with token `row`:
 * float[rows][llmc_vocabulary_size]. Reads the weights once. NULL if rows is not in 1 ..
 * llmc_batch_size, or if one of the tokens is not in the last chunk. */
const float* llmc_logits_rows(llmc_session* session, size_t row, size_t rows);
/* Returns the number of tokens in the last chunk that was run. Returns 0 after init, reset, rewind,
 * llmc_encode…, loading a state, selecting another sequence, a batch (or guided step), a slide that
 * leaves no tokens after the dropped ones, and a prompt that was cancelled after a chunk. */
size_t llmc_last_chunk(const llmc_session* session);
/* Returns how many logits the last choice of a token computed; 0: no choice (docs/sampling.md). */
size_t llmc_logits_computed(const llmc_session* session);

size_t llmc_position(const llmc_session* session); /* number of tokens in the cache */
/* Returns the number of tokens of the compiled-in prompt with which this session's sequences begin
 * (llmc_reset restores them). 0: no such prompt, or config.begin is LLMC_BEGIN_EMPTY. */
size_t llmc_prompt_size(const llmc_session* session);
/* Copies the ids of `n` tokens in the cache, beginning at position `first`; -1 for an embedding
 * (embeddings.h). Fails with LLMC_ERROR_POSITION if there are fewer. */
llmc_status llmc_tokens(const llmc_session* session, size_t first, int32_t* tokens, size_t n);
size_t llmc_context_size(const llmc_session* session);
size_t llmc_chunk_size(const llmc_session* session);
size_t llmc_batch_size(const llmc_session* session); /* the compiler's --batch */
size_t llmc_vocabulary_size(const llmc_session* session);
size_t llmc_thread_count(const llmc_session* session);

/* Drops the token at `position` and all tokens after it, and releases their cache blocks. There are
 * then no logits until a token is appended. If `position` is the end of the sequence, nothing
 * changes. Tokens of a compiled-in prompt are dropped like all others; llmc_reset restores them. A
 * model with recurrent states runs the remaining tokens again when the next token is appended. */
llmc_status llmc_rewind(llmc_session* session, size_t position);
/* Rewinds to the beginning: to position 0 or, with a compiled-in prompt, to its end, where its
 * logits are available again. */
llmc_status llmc_reset(llmc_session* session);
/* Drops `drop` tokens after the first `keep_first`. The tokens after them are run again at their
 * new positions, so that logits and cache are as if the dropped tokens had never existed. This
 * takes as long as a prompt of these tokens (recurrent states: of all remaining tokens). `cancel`
 * is called once, before anything changes.
 * If no tokens follow the dropped ones, there are no logits until a token is appended. With
 * mirostat, all tokens after the dropped ones get the state of the last one. LLMC_ERROR_POSITION:
 * fewer than keep_first + drop tokens. LLMC_ERROR_CONTEXT_FULL: see llmc_set_grammar. */
llmc_status llmc_slide(llmc_session* session, size_t keep_first, size_t drop);

/* ---- Saved states ----
 *
 * A state contains the selected sequence's token ids, its KV cache, its recurrent states,
 * mirostat's state after each token and, if the sequence has logits (not after a rewind), the last
 * layer's row from which they are computed. It also contains hashes and sizes that identify the
 * model (see llmc_state_load). It is a byte string of any alignment, for a file, another session or
 * another machine. It does not depend on the target, the chunk size, the block size or the threads.
 * Sampling parameters, logit bias, guidance and grammar are not saved, and loading a state does not
 * change them. The text of a grammar still begins at the position at which llmc_set_grammar was
 * called; if the loaded state is shorter, sampling returns LLMC_ERROR_POSITION. */

/* Returns the number of bytes that llmc_state_save would write now. */
size_t llmc_state_bytes(const llmc_session* session);
/* Writes the state to buffer[0 .. bytes). Fails with LLMC_ERROR_BUFFER if `bytes` is less than
 * llmc_state_bytes. `written` may be NULL. */
llmc_status llmc_state_save(llmc_session* session, void* buffer, size_t bytes, size_t* written);
/* Replaces the selected sequence's tokens, cache, recurrent states, logits and mirostat states by
 * those of a saved state of exactly `bytes` bytes. On an error nothing changes.
 *  - LLMC_ERROR_STATE: not a saved state, or damaged.
 *  - LLMC_ERROR_VERSION: saved in another version of the format (LLMC_STATE_VERSION).
 *  - LLMC_ERROR_STATE_MODEL: saved by another model. Compared are the hash of the weights, the hash
 *    of the program (stages and constants, such as epsilons, scales and windows), the shape and the
 *    cache format. A later compiler version may plan other stages, which makes another model.
 *  - LLMC_ERROR_SOURCE: saved with another source, which must be encoded first.
 *  - LLMC_ERROR_CONTEXT_FULL, LLMC_ERROR_POOL_FULL: more tokens than this session has room for. */
llmc_status llmc_state_load(llmc_session* session, const void* buffer, size_t bytes);

/* ---- Several sequences ----
 *
 * A session holds up to llmc_sequence_limit sequences, each with its own tokens, logits and
 * sampling parameters. At first only sequence 0 exists, and is selected. The functions above apply
 * to the selected sequence. A forked sequence shares the cache blocks of the common tokens; a
 * sequence that writes to a shared block gets its own copy. Every function that appends tokens
 * returns LLMC_ERROR_POOL_FULL if the pool has too few free blocks. */

llmc_status llmc_select(llmc_session* session, uint32_t sequence);
uint32_t llmc_selected(const llmc_session* session);
/* Creates a sequence that contains the compiled-in prompt (llmc_prompt_size tokens), which takes no
 * block of the pool, or that is empty. Its sampling parameters are those of the configuration.
 * LLMC_ERROR_SEQUENCE: the session already has llmc_sequence_limit sequences. */
llmc_status llmc_new_sequence(llmc_session* session, uint32_t* sequence);
/* Creates a sequence with the same tokens, source, logits, sampling parameters, biases, breakers
 * and grammar, without taking blocks of the pool. Because the seed is also the same, both generate
 * the same tokens until the parameters of one change. Errors as for llmc_new_sequence. */
llmc_status llmc_fork(llmc_session* session, uint32_t from, uint32_t* to);
/* Ends a sequence; its number may be reused. Fails with LLMC_ERROR_ARGUMENT if the sequence is
 * selected or guides another sequence. */
llmc_status llmc_release(llmc_session* session, uint32_t sequence);

/* Appends tokens[i] to sequences[i] for n <= llmc_batch_size different sequences (otherwise
 * LLMC_ERROR_ARGUMENT). Reads the weights once. Gives the same bits as n calls of llmc_append. */
llmc_status llmc_append_batch(llmc_session* session, const uint32_t* sequences, size_t n,
                              const int32_t* tokens);
/* Performs llmc_step for n different sequences; tokens[i] receives the token chosen for
 * sequences[i]. Limits and errors as for llmc_append_batch. */
llmc_status llmc_step_batch(llmc_session* session, const uint32_t* sequences, size_t n,
                            int32_t* tokens);

size_t llmc_sequence_limit(const llmc_session* session); /* the compiler's --sequences */
size_t llmc_pool_blocks(const llmc_session* session);    /* the compiler's --pool */
size_t llmc_free_blocks(const llmc_session* session);    /* free blocks in the pool */

/* ---- Grammars ----
 *
 * Grammars constrain generated text. Their tables are compiled ahead of time from a grammar and the
 * model's tokenizer: docs/grammar.md. Only one thread at a time may use a grammar and the sessions
 * in which it is set. Any number of grammars may share tables. */

typedef struct llmc_grammar llmc_grammar;
/* Number of bytes of memory for llmc_grammar_init, the same for every grammar. */
#define LLMC_GRAMMAR_BYTES 12288u

/* Checks the tables and creates a grammar, at the start of a text, in memory[0 .. bytes). The
 * memory and the tables must be aligned to 8 bytes. The tables are not copied and must stay valid.
 * The grammar needs no destruction. LLMC_ERROR_BUFFER: fewer bytes than LLMC_GRAMMAR_BYTES.
 * LLMC_ERROR_ARGUMENT: a NULL pointer or misaligned memory. LLMC_ERROR_GRAMMAR_TABLES: the tables
 * are damaged, misaligned, or of another version. */
llmc_status llmc_grammar_init(void* memory, size_t bytes, const void* tables, size_t tables_bytes,
                              llmc_grammar** grammar);

/* Functions for programs that choose tokens themselves, without a session. llmc_grammar_restart
 * returns to the start of a text. llmc_grammar_accept consumes one token; on an error (see
 * llmc_set_grammar) the grammar is unchanged. llmc_grammar_allow writes which tokens can come next:
 * bit i % 32 of mask[i / 32] is set if token i can. `words` must be at least the size of the
 * vocabulary / 32, rounded up. */
llmc_status llmc_grammar_restart(llmc_grammar* grammar);
llmc_status llmc_grammar_accept(llmc_grammar* grammar, int32_t token);
llmc_status llmc_grammar_allow(llmc_grammar* grammar, uint32_t* mask, size_t words);

/* State of a text of a grammar. */
enum {
  LLMC_GRAMMAR_INCOMPLETE = 0, /* the text cannot end here */
  LLMC_GRAMMAR_MAY_END = 1,    /* the text can end or continue */
  LLMC_GRAMMAR_COMPLETE = 2    /* the text can only end */
};
/* Returns LLMC_GRAMMAR_INCOMPLETE, LLMC_GRAMMAR_MAY_END or LLMC_GRAMMAR_COMPLETE. */
int llmc_grammar_text_state(const llmc_grammar* grammar);

/* Constrains the selected sequence to a grammar: sampled tokens continue a text of the grammar that
 * begins at the current position. NULL: no grammar. The pointer is kept: the grammar must stay
 * valid. Tokens that are appended without sampling become part of the text without a check;
 * sampling reports errors in them. The grammar's state depends only on the tokens after this
 * position, so nothing need be called after a rewind, and forks share the grammar. If sequences
 * that share a grammar are stepped in turn, it reads the whole text again at every change of
 * sequence: one grammar per sequence is faster. The start of the text moves only when the context
 * slides. If a rewind, a reset or a shorter loaded state ends before it, sampling returns
 * LLMC_ERROR_POSITION until tokens are appended up to that position or this function is called
 * again. Sliding cannot drop tokens of the text (LLMC_ERROR_CONTEXT_FULL).
 * LLMC_ERROR_GRAMMAR_TABLES: the tables were made for another vocabulary. Later, sampling returns
 * LLMC_ERROR_GRAMMAR if the text contains tokens that the grammar does not allow,
 * LLMC_ERROR_GRAMMAR_DEPTH if nesting is too deep, and LLMC_ERROR_NO_CANDIDATE if no token can
 * follow. */
llmc_status llmc_set_grammar(llmc_session* session, llmc_grammar* grammar);
/* Sets *state to that of the selected sequence's text: LLMC_GRAMMAR_MAY_END without a grammar,
 * LLMC_GRAMMAR_INCOMPLETE before its start. Errors in the text are those of sampling. */
llmc_status llmc_text_state(llmc_session* session, int* state);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* LLMC_LLMC_H */

/*
 * llmc: the C interface of a compiled language model. C99 or C++; no other header is needed.
 *
 *     static _Alignas(LLMC_ALIGNMENT) unsigned char arena[NAME_ARENA_BYTES];
 *     llmc_session* session;
 *     llmc_status status = NAME_init(&session, arena, sizeof arena, NULL);
 *     status = llmc_prefill(session, prompt, prompt_count, NULL);
 *     while (status == LLMC_OK) status = llmc_step(session, &token);
 *
 * Rules that hold for every function here:
 *  - no allocation, no I/O, no global state, no abort: every failure is a status;
 *  - an error leaves the session as it was: position, cache, logits and sampling;
 *  - one session belongs to one thread at a time; different sessions are independent;
 *  - the same tokens give the same bits whatever the threads, the chunks and the target, with the
 *    processor's default floating point: to nearest, subnormals kept. What computes checks the
 *    calling thread's (LLMC_ERROR_FLOAT_MODE, or NULL for logits);
 *  - a callback may ask its session for numbers and tokens (functions that take it as const); all
 *    others say LLMC_ERROR_BUSY, or NULL, and touch nothing, not even `done`.
 */
#ifndef LLMC_LLMC_H
#define LLMC_LLMC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default) /* also where -fvisibility=hidden hides everything else */
#endif

/* What an arena and external weights must be aligned to, in bytes. */
#define LLMC_ALIGNMENT 64

typedef enum llmc_status {
  LLMC_OK = 0,
  LLMC_ERROR_ARGUMENT = 1,        /* a required pointer is NULL or a number makes no sense */
  LLMC_ERROR_VERSION = 2,         /* header, model and runtime are of different versions */
  LLMC_ERROR_MODEL = 3,           /* the model's own description contradicts itself */
  LLMC_ERROR_ARENA_SMALL = 4,     /* fewer bytes than NAME_ARENA_BYTES */
  LLMC_ERROR_ARENA_ALIGNMENT = 5, /* the arena does not start at a multiple of LLMC_ALIGNMENT */
  LLMC_ERROR_CPU = 6,             /* this machine lacks instructions the model was compiled for */
  LLMC_ERROR_WEIGHTS = 7,         /* weights missing, misaligned, or of another model */
  LLMC_ERROR_THREADS = 8,         /* more threads than the model was compiled for */
  LLMC_ERROR_SAMPLING = 9,        /* a sampling parameter is not a number or out of range */
  LLMC_ERROR_TOKEN = 10,          /* a token id outside the vocabulary */
  LLMC_ERROR_CONTEXT_FULL = 11,   /* no room in the context for these tokens */
  LLMC_ERROR_POSITION = 12,       /* a position behind the end of the sequence */
  LLMC_ERROR_NO_LOGITS = 13,      /* nothing was run since init, reset or rewind */
  LLMC_ERROR_NOT_FINITE = 14,     /* the logits hold no largest finite value to sample from */
  LLMC_ERROR_CANCELLED = 15,      /* the cancel callback asked to stop */
  LLMC_ERROR_BUSY = 16,           /* called from inside a callback of the same session */
  LLMC_ERROR_FLOAT_MODE = 17,     /* the calling thread rounds or flushes floats in its own way */
  LLMC_ERROR_SEQUENCE = 18,       /* there is no such sequence, or no room for one more */
  LLMC_ERROR_POOL_FULL = 19,      /* the cache's pool has too few free blocks */
  LLMC_ERROR_STATE = 20,          /* these bytes are no saved state, or a damaged one */
  LLMC_ERROR_STATE_MODEL = 21,    /* the saved state belongs to another model or cache format */
  LLMC_ERROR_NO_CANDIDATE = 24,   /* logit bias and grammar leave no token to choose from */
  LLMC_ERROR_GRAMMAR_TABLES = 25, /* tables of a grammar damaged, or of another vocabulary */
  LLMC_ERROR_GRAMMAR = 26,        /* a token that cannot stand where it does */
  LLMC_ERROR_GRAMMAR_DEPTH =
      27,                 /* a text nested deeper, or more ambiguous, than there is room for */
  LLMC_ERROR_BUFFER = 35, /* the caller's buffer is too small */
  /* Only from the hosted library (hosted.h). */
  LLMC_ERROR_FILE = 32,   /* a file cannot be opened, read or mapped */
  LLMC_ERROR_FORMAT = 33, /* a file's content is not what it should be */
  LLMC_ERROR_MEMORY = 34  /* out of memory or threads */
} llmc_status;

/* One English sentence for a status, without a full stop. Never NULL. */
const char* llmc_status_text(llmc_status status);

/* Calls fn(arg, i) exactly once for every i in 0 .. n-1, at the same time where it can, and returns
 * when all calls have returned and what they wrote can be read. Must not fail. */
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

/* How the next token is chosen; llama.cpp's names, meanings and order. All zero: greedy. Each stage
 * is off at zero and works on what the ones before it left; the default order is that of the stages
 * above. Then comes one random draw. docs/sampling.md says what each stage does. */
typedef struct llmc_sampling {
  uint64_t seed;     /* a choice is a function of it, the position, the logits, the tokens before
                        and what is set here and for the sequence: it can be repeated */
  float temperature; /* <= 0: greedy, in any order of stages: the most likely token they leave, the
                        lowest id among equals */
  int32_t top_k;     /* keep the k most likely tokens; <= 0: all */
  float top_p; /* keep the fewest most likely tokens whose probabilities reach p; <= 0, >= 1: all */
  float min_p; /* keep tokens at least min_p times as likely as the likeliest; <= 0: all */
  float tfs_z; /* cut the tail where probabilities no longer bend; <= 0, >= 1: all */
  float typical_p;       /* keep the most typical tokens up to this probability; <= 0, >= 1: all */
  float xtc_probability; /* with this probability, drop all but the least likely of the tokens … */
  float xtc_threshold;   /* … that have at least this one; above 0.5: never */
  int32_t repeat_last_n; /* the next three look at so many last tokens; 0: none, -1: all */
  float repeat_penalty;  /* above 1: tokens that are among them become less likely; 0, 1: off */
  float frequency_penalty; /* taken off a token's logit for each time it is among them */
  float presence_penalty;  /* and once if it is */
  float dry_multiplier;    /* what continues a repetition is lowered by multiplier · base^(length */
  float dry_base;          /* - allowed_length); multiplier 0 or base below 1: off. Repetitions */
  int32_t dry_allowed_length; /* shorter than this are free */
  int32_t dry_penalty_last_n; /* so many last tokens count; 0: none, -1: all */
  int32_t mirostat;      /* 1, 2: that algorithm in place of all stages but penalties, dry and */
  float mirostat_lr;     /* temperature; its learning rate */
  float mirostat_ent;    /* and the surprise in bits per token that it aims at */
  uint8_t samplers[16];  /* LLMC_SAMPLER_… in the order wanted, ended by 0; penalties and dry come
                            first; empty: the default order */
  uint32_t reserved[23]; /* zero; later stages find their parameters here */
} llmc_sampling;

/* The two orders that llama.cpp has had, for llmc_sampling.samplers: that of 2024 (penalties,
 * top_k, tfs_z, typical_p, top_p, min_p, temperature), and today's (penalties, dry, top_k,
 * typical_p, top_p, min_p, xtc, temperature). The default order holds both: it has every stage
 * where they have it. */
enum { LLMC_SAMPLERS_DEFAULT = 0, LLMC_SAMPLERS_2024 = 1, LLMC_SAMPLERS_TODAY = 2 };

enum { LLMC_LOG_ERROR = 0, LLMC_LOG_WARNING = 1, LLMC_LOG_INFO = 2 };

/* Whether the cores behind parallel_for are equally fast. On even ones every thread gets its part
 * of a stage at once; on uneven ones (big and little cores) threads take small parts as they go.
 * Changes speed, never a result. */
enum { LLMC_CORES_OF_TARGET = 0, LLMC_CORES_EVEN = 1, LLMC_CORES_UNEVEN = 2 };

/* When the context is full: LLMC_ERROR_CONTEXT_FULL, or llmc_slide by itself. */
enum { LLMC_FULL_STATUS = 0, LLMC_FULL_SLIDE = 1 };

/* What sequences begin with: the prompt that was compiled into the model, if one was, or nothing.
 */
enum { LLMC_BEGIN_PROMPT = 0, LLMC_BEGIN_EMPTY = 1 };

/* Everything optional. Zero it, set `size`, then what is wanted; NULL stands for all defaults. */
typedef struct llmc_config {
  size_t size;      /* sizeof(llmc_config) */
  uint32_t threads; /* worker slots; 0: 1, or all the model allows with parallel_for */
  uint32_t chunk;   /* most tokens of a prompt run at once; 0 or more than the model's:
                       the model's. Changes speed, never a result. */
  llmc_parallel_for parallel_for; /* NULL: everything runs on the calling thread */
  void* parallel_user;
  int (*cancel)(void* user); /* polled before each chunk and step, but only once for tokens that
                                make the context slide; non-zero: LLMC_ERROR_CANCELLED */
  void* cancel_user;
  void (*log)(void* user, int level, const char* text); /* NULL: silent. Text is one line. */
  void* log_user;
  const void* weights; /* content of NAME.weights.bin when it was not embedded; kept, not copied */
  size_t weights_bytes;
  llmc_sampling sampling;
  uint32_t cores; /* LLMC_CORES_…; 0: as usual on machines of the model's target */
  /* What happens when tokens find no room in the context (LLMC_FULL_…), except in batches, which
   * always say so. */
  uint32_t full_context;
  uint32_t keep_first;   /* LLMC_FULL_SLIDE: so many tokens stay for good, the first ones */
  uint32_t slide_tokens; /* so many behind them go, or more when more is needed; 0: half of those
                            that may */
  uint32_t begin;        /* LLMC_BEGIN_… */
  uint32_t reserved;     /* zero */
} llmc_config;

typedef struct llmc_session llmc_session; /* lives in the arena; needs no destruction */
typedef struct llmc_model llmc_model;     /* what was compiled; see model.h */

/* Builds a session in arena[0 .. bytes). NAME_init of a compiled model calls this with its model.
 * Nothing is kept of `config` but the pointers in it. On error *session is NULL. */
llmc_status llmc_session_init(const llmc_model* model, void* arena, size_t bytes,
                              const llmc_config* config, llmc_session** session);

/* Appends `n` tokens and computes the logits after the last. `done` (may be NULL) counts the tokens
 * of this call in the cache: it grows chunk by chunk, so that a cancel callback can show progress,
 * and is n or, on any error, 0 at the end: a cancelled prompt is rolled back as a whole. Splitting
 * a prompt over several calls gives the same bits. n = 0 changes nothing. */
llmc_status llmc_prefill(llmc_session* session, const int32_t* tokens, size_t n, size_t* done);

/* Chooses the next token from the logits, appends it and computes the next logits. */
llmc_status llmc_step(llmc_session* session, int32_t* token);

/* The two halves of llmc_step. Sampling changes nothing: asked twice, it answers the same. With
 * mirostat, appending the token that llmc_sample gave moves its state, also as the first one of
 * several; other tokens leave it, and a rewind goes back to the state that was there: the first
 * token it dropped counts again when it is the next one. */
llmc_status llmc_sample(llmc_session* session, int32_t* token);
llmc_status llmc_append(llmc_session* session, int32_t token);

/* Replaces how tokens are chosen from now on. NULL: greedy. */
llmc_status llmc_set_sampling(llmc_session* session, const llmc_sampling* sampling);
/* llama.cpp's defaults: temperature 0.8, top_k 40, top_p 0.95, min_p 0.05; what is off there is
 * off, with the value that turns it off there; seed 0. */
void llmc_sampling_defaults(llmc_sampling* sampling);
/* Fills sampling->samplers with LLMC_SAMPLERS_…. LLMC_ERROR_ARGUMENT for another order. */
llmc_status llmc_sampling_order(llmc_sampling* sampling, int order);

/* Sequences of tokens over which dry sees no repetition, such as the ends of sentences. */
typedef struct llmc_dry_breakers {
  const int32_t* heads; /* [count] their first tokens, ascending; one may stand there twice */
  const uint32_t* tail_begins; /* [count + 1] ascending: the other tokens of breaker i are */
  const int32_t* tails;        /* tails[tail_begins[i]] up to, without, tails[tail_begins[i + 1]] */
  uint32_t count;
} llmc_dry_breakers;
/* Kept, not copied: the arrays must stay until replaced. NULL: none. LLMC_ERROR_SAMPLING when they
 * are not in order, LLMC_ERROR_TOKEN for ids outside the vocabulary. */
llmc_status llmc_set_dry_breakers(llmc_session* session, const llmc_dry_breakers* breakers);

/* What is added to a token's logit; -infinity: never chosen. */
typedef struct llmc_logit_bias {
  int32_t token;
  float bias;
} llmc_logit_bias;
/* Adds these to the logits from now on, before all stages; a token that stands there twice gets the
 * sum. Kept, not copied: biases[n] must stay until replaced. n = 0: none. LLMC_ERROR_SAMPLING for a
 * NaN or +infinity. */
llmc_status llmc_set_logit_bias(llmc_session* session, const llmc_logit_bias* biases, size_t n);

/* Guides what the selected sequence is continued with: logits become q + scale · (p - q) before the
 * bias and all stages, where p and q are the logarithms of the probabilities that follow it and the
 * sequence `guide`, say that of a negative prompt (classifier-free guidance, llama.cpp's
 * --cfg-scale). Above 1: away from the guide; 1: no guidance, whatever the guide.
 * llmc_step and llmc_step_batch append what is chosen to the guide too, in the same pass over the
 * weights, and count it to the batch, in which the context never slides; everything else, a prompt
 * or a rewind, is each sequence's own. A fork is not guided. Sampling answers LLMC_ERROR_NO_LOGITS
 * until the guide has tokens. LLMC_ERROR_SEQUENCE: there is no such sequence; LLMC_ERROR_ARGUMENT:
 * it is the selected one, guides another or is guided itself, the selected one is a guide, or the
 * model was compiled for batches of 1. */
llmc_status llmc_set_guidance(llmc_session* session, uint32_t guide, float scale);

/* A token the next one could be. */
typedef struct llmc_candidate {
  int32_t token;
  float logprob; /* natural logarithm of its probability */
} llmc_candidate;
enum {
  LLMC_CANDIDATES_MODEL = 0,  /* probabilities as the model gives them: softmax of the logits,
                                 whatever guide, bias and grammar */
  LLMC_CANDIDATES_SAMPLER = 1 /* those of the draw, after all stages */
};
/* The `n` most likely next tokens in order, the lowest id first among equals, and in *count how
 * many of them there are: fewer than n where fewer are possible. Changes nothing. */
llmc_status llmc_candidates(llmc_session* session, int which, llmc_candidate* candidates, size_t n,
                            size_t* count);
/* What the model gives to one token: the natural logarithm of its probability, as
 * LLMC_CANDIDATES_MODEL. */
llmc_status llmc_logprob(llmc_session* session, int32_t token, float* logprob);

/* float[llmc_vocabulary_size] after the last token, or NULL when there is none. Valid until the
 * next call that takes this session. */
const float* llmc_logits(llmc_session* session);
/* The same after token `row` of the last chunk that was run (0 <= row < llmc_last_chunk), for
 * perplexity; NULL outside it. Shares its memory with llmc_logits; sampling is not affected. */
const float* llmc_logits_at(llmc_session* session, size_t row);
/* The same for `rows` rows from there on, float[rows][llmc_vocabulary_size], with one pass over the
 * weights; at most llmc_batch_size. */
const float* llmc_logits_rows(llmc_session* session, size_t row, size_t rows);
/* Tokens in the last chunk that was run; 0 after init, reset, rewind, a loaded state, a slide
 * behind which nothing is left, a batch (a guided step is one), a prompt that was cancelled after
 * its first chunk, or when another sequence is selected. */
size_t llmc_last_chunk(const llmc_session* session);

size_t llmc_position(const llmc_session* session); /* tokens in the cache */
/* Of the prompt that was compiled into the model: tokens that this session's sequences begin with
 * and llmc_reset goes back to. 0 when there is none, or config.begin said so. */
size_t llmc_prompt_size(const llmc_session* session);
/* The ids of `n` tokens in the cache from position `first` on. LLMC_ERROR_POSITION when there are
 * not so many. */
llmc_status llmc_tokens(const llmc_session* session, size_t first, int32_t* tokens, size_t n);
size_t llmc_context_size(const llmc_session* session);
size_t llmc_chunk_size(const llmc_session* session);
size_t llmc_batch_size(const llmc_session* session); /* the compiler's --batch */
size_t llmc_vocabulary_size(const llmc_session* session);
size_t llmc_thread_count(const llmc_session* session);

/* Forgets all tokens from `position` on and gives their cache blocks back. Below the end the logits
 * are gone until a token is appended; at the end nothing changes. Tokens of a prompt that was
 * compiled into the model are forgotten like others; llmc_reset has them again. */
llmc_status llmc_rewind(llmc_session* session, size_t position);
/* Rewind to the beginning: to 0, or behind the prompt that was compiled into the model, whose
 * logits are there again. */
llmc_status llmc_reset(llmc_session* session);
/* Drops `drop` tokens behind the first `keep_first`. Those after them move up and are computed
 * again at their new positions, so that logits and cache are those of a sequence which never had
 * the dropped ones; it takes the time of a prompt of that many tokens. `cancel` is asked before it
 * begins, not in between. When none follow there are no logits until a token is appended. With
 * mirostat all that moved have the state of the last one, which is the one that goes on. */
llmc_status llmc_slide(llmc_session* session, size_t keep_first, size_t drop);

/* ---- Saved states ----
 *
 * A state holds the selected sequence's token ids, KV cache, the last layer's row from which the
 * logits are computed (unless the sequence has no logits, as after a rewind), and mirostat's state
 * after each token. It is a byte string of any alignment, for a file, another session or another
 * machine. Its bytes depend on nothing else: not on the target, chunks, block size or threads.
 * Sampling parameters, logit bias, guidance and grammar are not saved. After a load a sequence
 * keeps its grammar; the text held to the grammar begins at the loaded position or before. */

/* Bytes that llmc_state_save would write now. */
size_t llmc_state_bytes(const llmc_session* session);
/* Writes the state to buffer[0 .. bytes). LLMC_ERROR_BUFFER: `bytes` is less than
 * llmc_state_bytes. `written` may be NULL. */
llmc_status llmc_state_save(llmc_session* session, void* buffer, size_t bytes, size_t* written);
/* Replaces the selected sequence's tokens, cache, logits and mirostat states by those of a saved
 * state of exactly `bytes` bytes. On an error nothing changes.
 *  - LLMC_ERROR_STATE: not a saved state, or damaged;
 *  - LLMC_ERROR_VERSION: saved in another version of the format (LLMC_STATE_VERSION);
 *  - LLMC_ERROR_STATE_MODEL: saved by another model. Compared are the hash of the weights, the hash
 *    of the program (stages and constants, such as epsilons, scales and windows), the shape and the
 *    cache format. A model that a later compiler turns into other stages is another model;
 *  - LLMC_ERROR_CONTEXT_FULL, LLMC_ERROR_POOL_FULL: more tokens than this session has room for. */
llmc_status llmc_state_load(llmc_session* session, const void* buffer, size_t bytes);

/* ---- Several sequences ----
 *
 * A session holds up to llmc_sequence_limit sequences, each with its tokens, logits and sampling.
 * Number 0 exists from the start and is selected; the functions above work on the one that is.
 * Sequences that were forked share the cache blocks of what they have in common, until one writes
 * to a block that another one sees too: then it gets a copy. LLMC_ERROR_POOL_FULL from any function
 * that appends: the pool is smaller than what the sequences hold together. */

llmc_status llmc_select(llmc_session* session, uint32_t sequence);
uint32_t llmc_selected(const llmc_session* session);
/* An empty sequence, or one of the prompt that was compiled into the model, which takes no block;
 * it samples as the configuration says. LLMC_ERROR_SEQUENCE: there are as
 * many as the model was compiled for. */
llmc_status llmc_new_sequence(llmc_session* session, uint32_t* sequence);
/* A sequence of the same tokens, logits and sampling; costs no block. It has the same seed, too,
 * and says the same until it is given another one (llmc_set_sampling). */
llmc_status llmc_fork(llmc_session* session, uint32_t from, uint32_t* to);
/* Ends a sequence, which must not be the selected one nor guide another (LLMC_ERROR_ARGUMENT); its
 * number may be given out again. */
llmc_status llmc_release(llmc_session* session, uint32_t sequence);

/* Appends tokens[i] to sequences[i], n <= llmc_batch_size different ones, reading the weights once.
 * The bits are those of n calls of llmc_append, one for each. All or nothing. */
llmc_status llmc_append_batch(llmc_session* session, const uint32_t* sequences, size_t n,
                              const int32_t* tokens);
/* llmc_step for all of them: tokens[i] is what sequences[i] was continued with. */
llmc_status llmc_step_batch(llmc_session* session, const uint32_t* sequences, size_t n,
                            int32_t* tokens);

size_t llmc_sequence_limit(const llmc_session* session); /* the compiler's --sequences */
size_t llmc_pool_blocks(const llmc_session* session);    /* the compiler's --pool */
size_t llmc_free_blocks(const llmc_session* session);    /* of those */

/* ---- Grammars ----
 *
 * A text held to a grammar, whose tables are made ahead of time from it and the model's tokenizer:
 * docs/grammar.md. A grammar belongs to one thread at a time, with all sessions it is set in; the
 * tables may be shared by any. */

typedef struct llmc_grammar llmc_grammar;
/* Of the memory llmc_grammar_init takes, whatever the grammar. */
#define LLMC_GRAMMAR_BYTES 12288u

/* Checks the tables, which are kept, not copied, aligned to 8 bytes, and makes a grammar at the
 * start of a text in memory[0 .. bytes), aligned to 8 bytes too. Needs no destruction.
 * LLMC_ERROR_BUFFER: fewer bytes than LLMC_GRAMMAR_BYTES; LLMC_ERROR_ARGUMENT: a NULL, or memory
 * not aligned; LLMC_ERROR_GRAMMAR_TABLES: tables damaged, not aligned, or of another version. */
llmc_status llmc_grammar_init(void* memory, size_t bytes, const void* tables, size_t tables_bytes,
                              llmc_grammar** grammar);

/* Without a session, for programs that choose tokens themselves: back to the start of a text; one
 * token further (on an error the grammar stays where it was); which tokens can come next, bit
 * i % 32 of mask[i / 32] for token i, at least as many words as the vocabulary needs. */
llmc_status llmc_grammar_restart(llmc_grammar* grammar);
llmc_status llmc_grammar_accept(llmc_grammar* grammar, int32_t token);
llmc_status llmc_grammar_allow(llmc_grammar* grammar, uint32_t* mask, size_t words);

/* State of a text. */
enum {
  LLMC_GRAMMAR_INCOMPLETE = 0, /* it cannot end here */
  LLMC_GRAMMAR_MAY_END = 1,    /* it can end here or go on */
  LLMC_GRAMMAR_COMPLETE = 2,   /* nothing can follow */
  /* Deprecated names of the same. */
  LLMC_TEXT_GOES_ON = LLMC_GRAMMAR_INCOMPLETE,
  LLMC_TEXT_MAY_END = LLMC_GRAMMAR_MAY_END,
  LLMC_TEXT_COMPLETE = LLMC_GRAMMAR_COMPLETE
};
int llmc_grammar_text_state(const llmc_grammar* grammar);

/* Holds the selected sequence to a grammar: what is chosen from here on, and what is appended
 * otherwise, is a text of it. The grammar is kept, not copied. Its state is a function of the
 * tokens behind this position: rewinds need no call, and forks share it. The text begins there
 * whatever is done: after a rewind to before it, a reset or a shorter state, sampling answers
 * LLMC_ERROR_POSITION until a prompt stands there again, or a new call of this. Sequences stepped
 * in turn are faster with one each, as a shared one reads the whole text again for each of them.
 * No token of the text can be dropped by sliding (LLMC_ERROR_CONTEXT_FULL).
 * NULL: no longer. LLMC_ERROR_GRAMMAR_TABLES: made for the vocabulary of another model.
 * Sampling then answers LLMC_ERROR_GRAMMAR behind tokens that do not belong to the grammar,
 * LLMC_ERROR_GRAMMAR_DEPTH, and LLMC_ERROR_NO_CANDIDATE where no token can follow. */
llmc_status llmc_set_grammar(llmc_session* session, llmc_grammar* grammar);
/* LLMC_GRAMMAR_… of the selected sequence; LLMC_GRAMMAR_MAY_END without a grammar. */
llmc_status llmc_text_state(llmc_session* session, int* state);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* LLMC_LLMC_H */

/*
 * Beam search: the most likely continuations of a text, instead of sampled ones. The searched
 * texts are forks of one sequence, so that they share its cache blocks; each step runs one token of
 * each text in one pass over the weights. The algorithm and its parameters are those of Hugging
 * Face's generate(num_beams = …).
 *
 *     llmc_beam_options options = {.size = sizeof options, .beams = 4, .max_tokens = 64,
 *                                  .length_penalty = 1.0f, .stop_ids = &eos, .stop_count = 1};
 *     llmc_beams* search;
 *     int done = 0;
 *     llmc_prefill(session, prompt, prompt_count, NULL);
 *     llmc_status status = llmc_beams_init(memory, sizeof memory, session, &options, &search);
 *     while (status == LLMC_OK && !done) status = llmc_beams_step(search, &done);
 *     if (status == LLMC_OK) status = llmc_beams_result(search, 0, &tokens, &count, &score);
 *     llmc_beams_end(search);
 */
#ifndef LLMC_BEAMS_H
#define LLMC_BEAMS_H

#include "llmc/llmc.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* When a search ends before max_tokens. As long as fewer than `beams` texts have ended, it
 * continues, unless only stop tokens can follow. */
enum {
  LLMC_BEAMS_LIKELY = 0, /* when no unfinished text, at its present length, has a better score than
                            the worst of the ended ones (early_stopping = False) */
  LLMC_BEAMS_FIRST = 1,  /* when `beams` texts have ended (early_stopping = True) */
  LLMC_BEAMS_NEVER = 2   /* when no unfinished text can reach a better score than the worst of the
                            ended ones within max_tokens (early_stopping = "never") */
};

typedef struct llmc_beam_options {
  size_t size;             /* sizeof(llmc_beam_options) */
  uint32_t beams;          /* number of texts: at least 1, at most llmc_batch_size, and at most one
                              more than the session has free sequences */
  uint32_t max_tokens;     /* maximum length of a result; at least 1 */
  int stopping;            /* LLMC_BEAMS_… */
  float length_penalty;    /* -16 .. 16: scores are divided by length^length_penalty; > 0 favours
                              long texts, since logarithms of probabilities are negative */
  const int32_t* stop_ids; /* [stop_count] tokens that end a text; not copied */
  uint32_t stop_count;     /* at most 1000 */
} llmc_beam_options;

typedef struct llmc_beams llmc_beams; /* stored in the caller's memory; needs no destruction */

/* Returns the number of bytes for llmc_beams_init; 0 if the options are invalid. */
size_t llmc_beams_bytes(const llmc_beam_options* options);

/* Begins a search after the tokens of the selected sequence, which must have logits, in
 * memory[0 .. bytes), aligned to 8 bytes. Until llmc_beams_end, only llmc_set_logit_bias and the
 * functions below may be called with the session. Biases of the selected sequence are added to the
 * logarithms of probabilities of all texts; -infinity excludes a token. Sampling parameters have no
 * effect.
 * LLMC_ERROR_ARGUMENT: invalid options or misaligned memory, or the sequence has a grammar or
 * guidance or is a guide. LLMC_ERROR_BUFFER: less than llmc_beams_bytes. LLMC_ERROR_SEQUENCE: too
 * few free sequences. LLMC_ERROR_CONTEXT_FULL: the context has no room for max_tokens - 1 tokens
 * (the last one is not appended). LLMC_ERROR_NO_LOGITS: the sequence has none. */
llmc_status llmc_beams_init(void* memory, size_t bytes, llmc_session* session,
                            const llmc_beam_options* options, llmc_beams** beams);

/* Extends all texts by one token. Sets *done to 1 when the search has ended. After
 * LLMC_ERROR_CANCELLED or LLMC_ERROR_POOL_FULL the call can be repeated. */
llmc_status llmc_beams_step(llmc_beams* beams, int* done);

/* Returns the number of ended texts that are kept: the best ones, at most `beams`. After the last
 * step those are the results. */
uint32_t llmc_beams_count(const llmc_beams* beams);
/* Returns the text with this rank: 0 is the text with the highest score. *tokens points to its *n
 * tokens, without the prompt and with its stop token, if any; valid until the next step or, after
 * the last step, as long as the search's memory. *score receives the sum of the logarithms of its
 * tokens' probabilities, divided by n^length_penalty. Fails with LLMC_ERROR_POSITION unless rank is
 * below llmc_beams_count. `tokens`, `n` and `score` may be NULL. */
llmc_status llmc_beams_result(const llmc_beams* beams, uint32_t rank, const int32_t** tokens,
                              size_t* n, float* score);

/* Ends the search, even if it is not done: releases its sequences and rewinds the selected sequence
 * to the prompt. It then has no logits until a token is appended (llmc_rewind), except if the
 * search appended no tokens. */
llmc_status llmc_beams_end(llmc_beams* beams);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* LLMC_BEAMS_H */

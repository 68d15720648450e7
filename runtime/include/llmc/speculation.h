/*
 * Speculative decoding: several tokens in one pass over the weights. Tokens that probably follow
 * are appended together, then each of them is compared with the choice of the model; the first one
 * that differs and those after it are dropped. Rows of a batch have the same bits as each row
 * alone, and random draws depend only on the seed and the position, so the tokens, logits and cache
 * are exactly those of as many calls of llmc_step, with any sampling parameters and grammar.
 *
 *     int32_t tokens[8];
 *     size_t count;
 *     status = llmc_step_lookup(session, 8, &eos, 1, tokens, &count);
 *
 * A model that is compiled with --batch N computes the logits of up to N of these tokens together.
 * If a call has more tokens than the batch, each token reads the weights of the head again.
 *
 * Tokens are appended one at a time, as by llmc_step, where they could not be dropped again or
 * would have different bits: with guidance, mirostat, recurrent states, or position scales that
 * depend on the length of the call (LongRoPE), and when the context is full.
 */
#ifndef LLMC_SPECULATION_H
#define LLMC_SPECULATION_H

#include "llmc/llmc.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Appends the next token and as many of the drafted ones as llmc_step would choose. `draft` has `n`
 * tokens that probably follow: the next one, which llmc_sample returns, then for example those that
 * a smaller model with the same tokenizer chooses after it. `tokens` receives 1 to max(n, 1) tokens
 * and *count their number. All of them are in the cache except a stop token: the first chosen token
 * that is one of `stop_ids` (`stop_count` ids) is the last of `tokens` and is not appended, as if
 * llmc_sample had returned it. To cut a text at an earlier token, use llmc_rewind. llmc_last_chunk
 * is then the number of appended tokens; it is 0 after a guided step, and unchanged if no token was
 * appended. Fails like llmc_step; *count is then 0 and nothing has changed. LLMC_ERROR_TOKEN: a
 * drafted token is not in the vocabulary. */
llmc_status llmc_step_draft(llmc_session* session, const int32_t* draft, size_t n,
                            const int32_t* stop_ids, size_t stop_count, int32_t* tokens,
                            size_t* count);

/* Does the same with a draft from the sequence itself (prompt lookup): the tokens after the longest
 * (of equally long ones, the latest) earlier occurrence of its last tokens and the next one. At
 * least 3 of these tokens must match; at most 16 are compared. `tokens` receives 1 to `n` tokens, n
 * at least 1. This pays off where a text repeats parts of itself: summaries, edited code,
 * structured data. After rejected drafts, drafts become shorter and rarer. */
llmc_status llmc_step_lookup(llmc_session* session, size_t n, const int32_t* stop_ids,
                             size_t stop_count, int32_t* tokens, size_t* count);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif

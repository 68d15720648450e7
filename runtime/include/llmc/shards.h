/*
 * Shards: a model in several libraries, each with some of its layers, for several machines
 * (llmc compile --stages N; docs/distributed.md). C99 or C++.
 *
 * A chunk of tokens passes through all shards in order. Each keeps the cache of its own layers; the
 * application moves the rows from one to the next:
 *
 *     llmc_forward_hidden(first, tokens, NULL, n, 0, rows);     // float rows[n][hidden]
 *     llmc_forward_hidden(second, tokens, rows, n, 0, NULL);    // the last one: has logits
 *     llmc_sample(second, &token);
 *
 * Every shard has its own session, and is given the same tokens. The results have the same bits as
 * those of the whole model. Calls that would run tokens through a whole model (llmc_prefill,
 * llmc_append, llmc_step, …) return LLMC_ERROR_SHARD. Rewinds, forks and saved states work as in a
 * whole model, in each shard; sampling and logits do so in the last shard.
 */
#ifndef LLMC_SHARDS_H
#define LLMC_SHARDS_H

#include "llmc/llmc.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Return the index of the session's shard and the number of shards; both are 0 for a whole
 * model. */
uint32_t llmc_shard(const llmc_session* session);
uint32_t llmc_shards(const llmc_session* session);
/* Returns the number of elements of a row. */
size_t llmc_hidden_width(const llmc_session* session);

/* Appends `n` tokens, 1 to llmc_chunk_size, to the selected sequence and runs the shard's layers.
 * `rows`: the rows from the previous shard, float[n][hidden]; NULL for the first shard. `hidden`:
 * receives the rows for the next shard; NULL for the last one, which has logits if `more` is 0.
 * `more`: number of tokens of the same prompt that later calls append. The context must have room
 * for all of them. LLMC_ERROR_SHARD: the session runs a whole model. On an error nothing has
 * changed. */
llmc_status llmc_forward_hidden(llmc_session* session, const int32_t* tokens, const float* rows,
                                size_t n, size_t more, float* hidden);

/* Appends one token to each of `n` different sequences, 1 to NAME_BATCH, in one pass over the
 * shard's weights (llmc_append_batch). `rows`, `hidden`: as above, a row for each sequence. After
 * the last shard every sequence has logits. Errors as above and of llmc_append_batch. */
llmc_status llmc_forward_hidden_batch(llmc_session* session, const uint32_t* sequences, size_t n,
                                      const int32_t* tokens, const float* rows, float* hidden);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* LLMC_SHARDS_H */

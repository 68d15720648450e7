/*
 * Text in, text out, with several threads: the model's archive and libllmc_hosted.a.
 *
 *     embed_threads TOKENIZER COUNT TEXT [SEED]      with a seed: sampled; without: greedy
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"
#include "llmc/hosted.h"

static int fail(const char* what, llmc_status status) {
  fprintf(stderr, "%s: %s\n", what, llmc_status_text(status));
  return 1;
}

static int run(llmc_session* session, const llmc_tokenizer* tokenizer, const char* text,
               int32_t wanted) {
  static int32_t ids[MODEL_CTX];
  size_t count;
  llmc_decoder* decoder;
  const char* piece;
  llmc_status status = llmc_tokenizer_encode(tokenizer, text, strlen(text), LLMC_ENCODE_PREFIX, ids,
                                             MODEL_CTX, &count);
  if (status != LLMC_OK) return fail("encode", status);
  status = llmc_prefill(session, ids, count, NULL);
  if (status != LLMC_OK) return fail("prompt", status);
  status = llmc_decoder_create(tokenizer, 0, &decoder);
  if (status != LLMC_OK) return fail("decoder", status);
  printf("%s", text);
  while (status == LLMC_OK && wanted-- > 0) {
    int32_t token;
    status = llmc_step(session, &token);
    if (status != LLMC_OK || llmc_tokenizer_is_stop(tokenizer, token)) break;
    status = llmc_decoder_add(decoder, token, &piece, NULL);
    if (status == LLMC_OK) printf("%s", piece);
    fflush(stdout);
  }
  if (llmc_decoder_finish(decoder, &piece, NULL) == LLMC_OK) printf("%s\n", piece);
  llmc_decoder_free(decoder);
  return status == LLMC_OK || status == LLMC_ERROR_CONTEXT_FULL ? 0 : fail("step", status);
}

int main(int argc, char** argv) {
  llmc_tokenizer* tokenizer;
  llmc_pool* pool;
  llmc_session* session;
  llmc_config config;
  llmc_status status;
  char message[300];
  int result;
  if (argc < 4 || number(argv[2]) < 0) {
    fprintf(stderr, "usage: %s TOKENIZER COUNT TEXT [SEED]\n", argv[0]);
    return 2;
  }
  status = llmc_tokenizer_load(argv[1], &tokenizer, message, sizeof message);
  if (status != LLMC_OK) {
    fprintf(stderr, "%s\n", message);
    return 1;
  }
  memset(&config, 0, sizeof config);
  config.size = sizeof config;
  config.threads = llmc_usable_cores();
  if (config.threads > JOIN(MODEL_MACRO, _THREADS_MAX))
    config.threads = JOIN(MODEL_MACRO, _THREADS_MAX);
  status = llmc_pool_create(config.threads, &pool);
  if (status != LLMC_OK) return fail("threads", status);
  config.parallel_for = llmc_pool_parallel_for;
  config.parallel_user = pool;
  if (argc > 4) {
    llmc_sampling_defaults(&config.sampling);
    config.sampling.seed = strtoull(argv[4], NULL, 10);
  }
  status = MODEL_INIT(&session, arena, sizeof arena, &config);
  result =
      status == LLMC_OK ? run(session, tokenizer, argv[3], number(argv[2])) : fail("start", status);
  llmc_pool_destroy(pool);
  llmc_tokenizer_free(tokenizer);
  return result;
}

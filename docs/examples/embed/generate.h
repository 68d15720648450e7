/*
 * The part of the example shared by the programs with and without a C library: token ids of a
 * prompt in, generated ids out. MODEL_HEADER and MODEL_PREFIX are set on the command line:
 *
 *     cc -DMODEL_HEADER='"tinyfable.h"' -DMODEL_PREFIX=tinyfable -DMODEL_MACRO=TINYFABLE …
 *
 * A real application includes one model's header and uses tinyfable_init and TINYFABLE_ARENA_BYTES.
 */
#ifndef GENERATE_H
#define GENERATE_H

#include MODEL_HEADER

#define JOIN_INNER(a, b) a##b
#define JOIN(a, b) JOIN_INNER(a, b)
#define MODEL_INIT JOIN(MODEL_PREFIX, _init)
#define MODEL_ARENA_BYTES JOIN(MODEL_MACRO, _ARENA_BYTES)
#define MODEL_CTX JOIN(MODEL_MACRO, _CTX)

/* All the memory that the model uses, reserved at link time. */
static unsigned char arena[MODEL_ARENA_BYTES] __attribute__((aligned(LLMC_ALIGNMENT)));

typedef void (*emit_token)(int32_t token);

/* Runs `count` prompt ids and passes `wanted` greedy tokens to `emit`, fewer if the context is
 * full. */
static inline llmc_status generate(const int32_t* prompt, size_t count, size_t wanted,
                                   emit_token emit) {
  llmc_session* session;
  size_t i;
  llmc_status status = MODEL_INIT(&session, arena, sizeof arena, NULL);
  if (status == LLMC_OK) status = llmc_prefill(session, prompt, count, NULL);
  for (i = 0; status == LLMC_OK && i < wanted; ++i) {
    int32_t token;
    status = llmc_sample(session, &token);
    if (status != LLMC_OK) break;
    emit(token);
    if (i + 1 < wanted) status = llmc_append(session, token);
  }
  return status == LLMC_ERROR_CONTEXT_FULL ? LLMC_OK : status;
}

/* Parses a decimal number that extends to the end of `text`; -1 if there is none or it does not
 * fit. */
static inline int32_t number(const char* text) {
  int64_t value = 0;
  if (*text == '\0') return -1;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9' || value > INT32_MAX / 10) return -1;
    value = value * 10 + (*text - '0');
  }
  return value > INT32_MAX ? -1 : (int32_t)value;
}

#endif

/*
 * Generates a text of the compiled-in grammar:
 *
 *     llmc compile MODEL --json-schema SCHEMA -o BUNDLE
 *     embed_grammar COUNT ID ID …      prints at most COUNT generated ids, one per line
 *
 * Exit code 0 if the text is complete. Links only the model's archive; see build.sh.
 */
#include <stdio.h>

#include "generate.h"

#define MODEL_GRAMMAR JOIN(MODEL_PREFIX, _grammar)

/* State of the grammar. */
static unsigned char memory[LLMC_GRAMMAR_BYTES] __attribute__((aligned(8)));

static llmc_status generate_text(const int32_t* prompt, size_t count, size_t wanted, int* state) {
  llmc_session* session;
  llmc_grammar* grammar;
  llmc_status status = MODEL_INIT(&session, arena, sizeof arena, NULL);
  if (status == LLMC_OK) status = llmc_prefill(session, prompt, count, NULL);
  if (status == LLMC_OK)
    status =
        llmc_grammar_init(memory, sizeof memory, MODEL_GRAMMAR, sizeof MODEL_GRAMMAR, &grammar);
  /* The text of the grammar begins at the current position. */
  if (status == LLMC_OK) status = llmc_set_grammar(session, grammar);
  *state = LLMC_GRAMMAR_INCOMPLETE;
  /* The text is complete after a stop token, or when it can only end. */
  while (status == LLMC_OK && *state != LLMC_GRAMMAR_COMPLETE && wanted-- > 0) {
    int32_t token;
    status = llmc_step(session, &token);
    if (status == LLMC_OK) printf("%d\n", (int)token);
    if (status == LLMC_OK) status = llmc_text_state(session, state);
  }
  return status;
}

int main(int argc, char** argv) {
  static int32_t prompt[MODEL_CTX];
  size_t count = 0;
  int i, state;
  llmc_status status;
  if (argc < 3 || (size_t)(argc - 2) > MODEL_CTX || number(argv[1]) < 0) {
    fprintf(stderr, "usage: %s COUNT ID…   (at most %u ids)\n", argv[0], (unsigned)MODEL_CTX);
    return 2;
  }
  for (i = 2; i < argc; ++i) prompt[count++] = number(argv[i]);
  status = generate_text(prompt, count, (size_t)number(argv[1]), &state);
  if (status != LLMC_OK) {
    fprintf(stderr, "%s: %s\n", argv[0], llmc_status_text(status));
    return 1;
  }
  return ferror(stdout) || fflush(stdout) != 0 || state == LLMC_GRAMMAR_INCOMPLETE;
}

/*
 * Generates token ids with a compiled model:
 *
 *     embed COUNT ID ID …      prints COUNT generated ids, one per line
 *
 * Links only the model's archive; see build.sh.
 */
#include <stdio.h>

#include "generate.h"

static void print_token(int32_t token) {
  printf("%d\n", (int)token);
}

int main(int argc, char** argv) {
  static int32_t prompt[MODEL_CTX];
  size_t count = 0;
  int i;
  llmc_status status;
  if (argc < 3 || (size_t)(argc - 2) > MODEL_CTX || number(argv[1]) < 0) {
    fprintf(stderr, "usage: %s COUNT ID…   (at most %u ids)\n", argv[0], (unsigned)MODEL_CTX);
    return 2;
  }
  for (i = 2; i < argc; ++i) prompt[count++] = number(argv[i]);
  status = generate(prompt, count, (size_t)number(argv[1]), print_token);
  if (status != LLMC_OK) {
    fprintf(stderr, "%s: %s\n", argv[0], llmc_status_text(status));
    return 1;
  }
  return ferror(stdout) || fflush(stdout) != 0;
}

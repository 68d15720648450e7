/*
 * A conversation on standard input and output: the model's archive and libllmc_hosted.a.
 *
 *     embed_chat BUNDLE/NAME.tokenizer.bin [BUNDLE/NAME.chat.json]
 *
 * Each line is a message to the model; Ctrl-C stops an answer. Without the second file, which a
 * bundle contains if the model has a chat template, lines are continued instead of answered.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "generate.h"
#include "llmc/hosted.h"

static llmc_chat* chat;

static void on_interrupt(int number) {
  (void)number;
  llmc_chat_cancel(chat); /* may be called from a signal handler and from any thread */
}

static int print_piece(void* user, const char* text, size_t bytes) {
  (void)user;
  fwrite(text, 1, bytes, stdout);
  return fflush(stdout) != 0; /* non-zero: stop */
}

static llmc_status answer(const char* line) {
  llmc_chat_options options;
  llmc_chat_result result;
  llmc_status status = llmc_chat_add(chat, "user", line, strlen(line));
  if (status != LLMC_OK) return status;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.text = print_piece;
  status = llmc_chat_answer(chat, &options, &result);
  if (status != LLMC_OK) {
    fprintf(stderr, "%s\n", llmc_chat_message(chat));
    return status;
  }
  printf("\n");
  if (result.why == LLMC_STOPPED_CONTEXT) {
    fprintf(stderr, "the context is full: the conversation begins anew\n");
    return llmc_chat_reset(chat);
  }
  return LLMC_OK;
}

int main(int argc, char** argv) {
  static char line[4096];
  char message[300];
  llmc_tokenizer* tokenizer;
  llmc_session* session;
  llmc_status status;
  if (argc < 2 || argc > 3) {
    fprintf(stderr, "usage: %s TOKENIZER [CHAT.json]\n", argv[0]);
    return 2;
  }
  status = llmc_tokenizer_load(argv[1], &tokenizer, message, sizeof message);
  if (status == LLMC_OK) {
    status = MODEL_INIT(&session, arena, sizeof arena, NULL);
    snprintf(message, sizeof message, "%s", llmc_status_text(status));
  }
  if (status == LLMC_OK)
    status = llmc_chat_create(session, tokenizer, argc > 2 ? argv[2] : NULL, &chat, message,
                              sizeof message);
  if (status != LLMC_OK) {
    fprintf(stderr, "%s\n", message);
    return 1;
  }
  signal(SIGINT, on_interrupt);
  while (status == LLMC_OK && fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    status = answer(line);
  }
  llmc_chat_free(chat);
  llmc_tokenizer_free(tokenizer);
  return status == LLMC_OK ? 0 : 1;
}

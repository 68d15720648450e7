/* llama_steps MODEL THREADS PROMPT SEQUENCES STEPS: greedy steps of several sequences together.
 *
 * Reads a prompt of PROMPT tokens into each sequence and generates its first token, then STEPS more
 * for each, one token of every sequence in a batch. Prints the seconds of these steps, without the
 * prompts and one step that warms up. With 0 steps it prints the first token of each sequence and
 * ends. The packaged llama.cpp has no llama-batched-bench. */
#include <llama.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void fail(const char* what) {
  fprintf(stderr, "llama_steps: %s\n", what);
  exit(1);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Only warnings and errors, and which CPU backend is loaded. */
static void log_line(enum ggml_log_level level, const char* text, void* data) {
  (void)data;
  if (level >= GGML_LOG_LEVEL_WARN || strstr(text, "loaded CPU backend") != NULL)
    fputs(text, stderr);
}

static void add(struct llama_batch* batch, int token, int position, int sequence, bool last) {
  const int i = batch->n_tokens++;
  batch->token[i] = token;
  batch->pos[i] = position;
  batch->n_seq_id[i] = 1;
  batch->seq_id[i][0] = sequence;
  batch->logits[i] = last;
}

static int likeliest(const float* logits, int n) {
  int best = 0;
  for (int i = 1; i < n; ++i) best = logits[i] > logits[best] ? i : best;
  return best;
}

int main(int argc, char** argv) {
  if (argc != 6) fail("usage: llama_steps MODEL THREADS PROMPT SEQUENCES STEPS");
  const int threads = atoi(argv[2]), prompt = atoi(argv[3]), sequences = atoi(argv[4]);
  const int steps = atoi(argv[5]);
  if (threads < 1 || prompt < 1 || sequences < 1 || steps < 0) fail("a number is too small");
  llama_log_set(log_line, NULL);
  ggml_backend_load_all();
  llama_backend_init();
  struct llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == NULL) fail("cannot load the model");
  struct llama_context_params params = llama_context_default_params();
  params.n_ctx = (uint32_t)(sequences * (prompt + steps + 8));
  params.n_batch = params.n_ubatch = (uint32_t)(prompt > sequences ? prompt : sequences);
  params.n_seq_max = (uint32_t)sequences;
  params.n_threads = params.n_threads_batch = threads;
  struct llama_context* context = llama_init_from_model(model, params);
  if (context == NULL) fail("cannot start");
  const int n = llama_vocab_n_tokens(llama_model_get_vocab(model));
  struct llama_batch batch = llama_batch_init((int)params.n_batch, 0, 1);
  int* tokens = calloc((size_t)sequences, sizeof *tokens);
  for (int s = 0; s < sequences; ++s) {
    batch.n_tokens = 0;
    for (int i = 0; i < prompt; ++i) add(&batch, (7 * i + 13 * s + 5) % n, i, s, i + 1 == prompt);
    if (llama_decode(context, batch) != 0) fail("cannot decode a prompt");
    tokens[s] = likeliest(llama_get_logits_ith(context, prompt - 1), n);
  }
  if (steps == 0) {
    for (int s = 0; s < sequences; ++s) printf("%d\n", tokens[s]);
    return 0;
  }
  double begin = 0;
  for (int step = 0; step <= steps; ++step) {
    if (step == 1) begin = seconds();
    batch.n_tokens = 0;
    for (int s = 0; s < sequences; ++s) add(&batch, tokens[s], prompt + step, s, true);
    if (llama_decode(context, batch) != 0) fail("cannot decode a step");
    for (int s = 0; s < sequences; ++s) tokens[s] = likeliest(llama_get_logits_ith(context, s), n);
  }
  printf("%.9g\n", seconds() - begin);
  return 0;
}

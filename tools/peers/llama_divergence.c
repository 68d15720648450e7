/* llama_divergence WINDOW THREADS BASE MODEL... < WINDOWS: how far GGUF files' distributions are
 * from those of a base.
 *
 * Each line of standard input is a window of at most WINDOW token ids, separated by blanks. All
 * models read it with an empty f32 cache, and every token but the first is counted, as `llmc
 * compare
 * --count all` does. Prints a line of JSON for each model: perplexities, the mean of the KL
 * divergence in nats, their standard errors, and the part of tokens with the same top token. BASE
 * may be one of the models. llama.cpp's own llama-perplexity takes a text instead of ids and counts
 * half of each window. */
#include <llama.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char* what, const char* which) {
  fprintf(stderr, "llama_divergence: %s %s\n", what, which);
  exit(1);
}

static struct llama_context* load(const char* file, int window, int threads) {
  struct llama_model* model = llama_model_load_from_file(file, llama_model_default_params());
  if (model == NULL) fail("cannot load", file);
  struct llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = (uint32_t)window;
  params.n_threads = params.n_threads_batch = threads;
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  struct llama_context* context = llama_init_from_model(model, params);
  if (context == NULL) fail("cannot start", file);
  return context;
}

static int vocabulary(struct llama_context* context) {
  return llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context)));
}

static void read_window(struct llama_context* context, struct llama_batch* batch) {
  llama_memory_clear(llama_get_memory(context), true);
  if (llama_decode(context, *batch) != 0) fail("cannot decode", "a window");
}

static double log_sum_exp(const float* logits, int n) {
  float top = logits[0];
  for (int i = 1; i < n; ++i) top = fmaxf(top, logits[i]);
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += exp((double)logits[i] - top);
  return top + log(sum);
}

static int likeliest(const float* logits, int n) {
  int best = 0;
  for (int i = 1; i < n; ++i) best = logits[i] > logits[best] ? i : best;
  return best;
}

struct mean {
  double count, value, squares;
};

static void add(struct mean* m, double value) {
  const double from_old = value - m->value;
  m->count += 1;
  m->value += from_old / m->count;
  m->squares += from_old * (value - m->value);
}

static double standard_error(const struct mean* m) {
  return m->count < 2 ? 0 : sqrt(m->squares / m->count / (m->count - 1));
}

struct tested {
  struct llama_context* context;
  struct mean base_loss, loss, kl;
  double same;
};

/* Adds the rows of a window, of which all but the last have a next token. */
static void compare(struct llama_context* base, struct tested* tested,
                    const struct llama_batch* batch, int n) {
  for (int i = 0; i + 1 < batch->n_tokens; ++i) {
    const float* p = llama_get_logits_ith(base, i);
    const float* q = llama_get_logits_ith(tested->context, i);
    const double p_sum = log_sum_exp(p, n), q_sum = log_sum_exp(q, n);
    double divergence = 0;
    for (int t = 0; t < n; ++t) {
      const double log_p = p[t] - p_sum;
      divergence += exp(log_p) * (log_p - (q[t] - q_sum));
    }
    add(&tested->kl, divergence);
    add(&tested->base_loss, p_sum - p[batch->token[i + 1]]);
    add(&tested->loss, q_sum - q[batch->token[i + 1]]);
    tested->same += likeliest(p, n) == likeliest(q, n);
  }
}

static void print(const struct tested* tested) {
  const double perplexity = exp(tested->loss.value);
  printf(
      "{\"predicted\": %.0f, \"base_perplexity\": %.9g, \"perplexity\": %.9g, "
      "\"perplexity_standard_error\": %.9g, \"kl\": %.9g, \"kl_standard_error\": %.9g, "
      "\"same_top\": %.9g}\n",
      tested->kl.count, exp(tested->base_loss.value), perplexity,
      perplexity * standard_error(&tested->loss), fmax(tested->kl.value, 0),
      standard_error(&tested->kl), tested->same / tested->kl.count);
}

/* Only warnings and errors, and which CPU backend is loaded. */
static void log_line(enum ggml_log_level level, const char* text, void* data) {
  (void)data;
  if (level >= GGML_LOG_LEVEL_WARN || strstr(text, "loaded CPU backend") != NULL)
    fputs(text, stderr);
}

int main(int argc, char** argv) {
  if (argc < 5) fail("usage:", "llama_divergence WINDOW THREADS BASE MODEL... < WINDOWS");
  const int window = atoi(argv[1]), threads = atoi(argv[2]), models = argc - 4;
  if (window < 2 || threads < 1) fail("invalid:", "WINDOW or THREADS");
  llama_log_set(log_line, NULL);
  ggml_backend_load_all();
  llama_backend_init();
  struct llama_context* base = load(argv[3], window, threads);
  const int n = vocabulary(base);
  struct tested* tested = calloc((size_t)models, sizeof *tested);
  for (int m = 0; m < models; ++m) {
    const char* file = argv[4 + m];
    tested[m].context = strcmp(file, argv[3]) == 0 ? base : load(file, window, threads);
    if (vocabulary(tested[m].context) != n) fail("another vocabulary than the base has:", file);
  }
  struct llama_batch batch = llama_batch_init(window, 0, 1);
  char* line = NULL;
  for (size_t room = 0; getline(&line, &room, stdin) >= 0;) {
    batch.n_tokens = 0;
    for (char* word = strtok(line, " \n"); word != NULL; word = strtok(NULL, " \n")) {
      const int i = batch.n_tokens++;
      if (i >= window) fail("standard input:", "a line has more than WINDOW ids");
      batch.token[i] = atoi(word);
      batch.pos[i] = i;
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = 0;
      batch.logits[i] = 1;
    }
    read_window(base, &batch);
    for (int m = 0; m < models; ++m) {
      if (tested[m].context != base) read_window(tested[m].context, &batch);
      compare(base, &tested[m], &batch, n);
    }
  }
  if (tested[0].kl.count == 0) fail("no tokens to count", "on standard input");
  for (int m = 0; m < models; ++m) print(&tested[m]);
  return 0;
}

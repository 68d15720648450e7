#include "exact_log.h"
#include "sampler.h"

// Mirostat keeps the surprise -log2 p of the tokens near the target mirostat_ent by removing
// candidates, depending on a state mu. Basu et al. 2020, "Mirostat: a neural text decoding
// algorithm that directly controls perplexity"; implemented as in llama.cpp.
namespace llmc::core {
namespace {

constexpr float kInfinity = __builtin_inff();

double log2_of(double x) {
  return exact_log(x) / kLn2;
}

/// Returns x / (1 - e^-x).
double bernoulli_ratio(double x) {
  if (x > -1e-4 && x < 1e-4) return 1.0 + x / 2.0 + x * x / 12.0;
  return x < 0.0 ? x * exact_exp(x) / (exact_exp(x) - 1.0) : x / (1.0 - exact_exp(-x));
}

}  // namespace

// ---- mirostat 1: estimates the exponent s of Zipf's law from the 100 most likely tokens, then
// keeps the k most likely: k = (e · 2^mu / (1 - V^-e))^(1/s) with e = s - 1 and the vocabulary size
// V.

namespace {

uint32_t count_below_surprise(Candidates& candidates, double mu, uint32_t vocab) {
  constexpr uint32_t kEstimatedFrom = 100;
  const uint32_t count = candidates.count;
  if (count < 2 || vocab < 2) return count;
  auto best = best_first(candidates);
  double products = 0.0, squares = 0.0;
  double logit = double{best[0].logit};
  for (uint32_t i = 0; i + 1 < kEstimatedFrom && i + 1 < count; ++i) {
    const Candidate& next = best[i + 1];
    if (next.logit == -kInfinity) break;
    const double t = exact_log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += t * (logit - double{next.logit});
    squares += t * t;
    logit = double{next.logit};
  }
  const double s = squares > 0.0 ? products / squares : 0.0;
  // ln of k^s: e / (1 - V^-e) is bernoulli_ratio(e ln V) / ln V.
  const double log_vocab = exact_log(static_cast<double>(vocab));
  const double log_power =
      exact_log(bernoulli_ratio((s - 1.0) * log_vocab) / log_vocab) + mu * kLn2;
  const double log_count = exact_log(static_cast<double>(count));
  if (log_power >= log_count * s) return log_power > 0.0 ? count : 1;
  if (log_power <= 0.0) return 1;
  const double k = 1.0 / exact_exp(-log_power / s);
  return k < static_cast<double>(count) ? static_cast<uint32_t>(k) : count;
}

}  // namespace

void cut_mirostat_1(Candidates& candidates, float mu, uint32_t vocab) {
  const uint32_t k = count_below_surprise(candidates, double{mu}, vocab);
  if (k >= candidates.count) return;
  if (!candidates.sorted) select_best(candidates.entries, candidates.count, k);
  candidates.count = k;
  candidates.sorted = true;
  candidates.by_id = false;
}

// ---- mirostat 2: removes tokens whose surprise exceeds mu, except the most likely token.

void cut_mirostat_2(Candidates& candidates, float mu) {
  const double log2_total = log2_of(total_weight(candidates));
  uint32_t kept = 0;
  for (uint32_t i = 0; i < candidates.count; ++i) {
    const Candidate& candidate = candidates.entries[i];
    const double below = double{candidates.best} - double{candidate.logit};
    if (log2_total + below / kLn2 <= double{mu}) candidates.entries[kept++] = candidate;
  }
  if (kept == 0) {
    select_best(candidates.entries, candidates.count, 1);
    kept = 1;
    candidates.sorted = true;
  }
  if (kept < candidates.count) candidates.by_id = false;
  candidates.count = kept;
}

// ---- both: after a token with probability p among the remaining ones is drawn, mu moves towards
// the target.

float next_mu(const llmc_sampling& sampling, float mu, double probability) {
  const double surprise = -log2_of(probability);
  const double error = surprise - double{sampling.mirostat_ent};
  return moved(mu, -(double{sampling.mirostat_lr} * error));
}

}  // namespace llmc::core

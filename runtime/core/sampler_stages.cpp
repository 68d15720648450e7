#include "philox.h"
#include "sampler.h"

// The comment of each stage describes its parameters, algorithm and reference. Probabilities are
// relative to the candidates that remain after the previous stages: weight / total_weight.
namespace llmc::core {
namespace {

constexpr float kInfinity = __builtin_inff();

/// Returns whether a parameter enables its stage: it is in (0, 1). 0, as in an all-zero
/// llmc_sampling, and 1 disable the stage.
bool is_part(float p) {
  return p > 0.0f && p < 1.0f;
}

double distance(double a, double b) {
  return a > b ? a - b : b - a;
}

}  // namespace

// ---- top_k: keeps the k most likely tokens. Fan et al. 2018, "Hierarchical neural story
// generation".

bool top_k_on(const llmc_sampling& sampling) {
  return sampling.top_k > 0;
}

void apply_top_k(Candidates& candidates, const SamplerContext& context) {
  const uint32_t k = static_cast<uint32_t>(context.sampling.top_k);
  if (k >= candidates.count) return;
  if (!candidates.sorted) select_best(candidates.entries, candidates.count, k);
  candidates.count = k;
  candidates.sorted = true;
  candidates.by_id = false;
}

// ---- tfs_z: removes the tail, where the curvature of the sorted probabilities vanishes. Bricken
// 2019, "Tail free sampling". For p[0] >= p[1] >= …, the second differences |(p[i] - p[i+1]) -
// (p[i+1] - p[i+2])| are divided by their sum (if the sum is at most 1e-6, all become equal). The
// number of tokens to keep is the first i >= 1 for which the sum of the differences 0 to i exceeds
// z. Two candidates or fewer are not changed.

bool tfs_z_on(const llmc_sampling& sampling) {
  return is_part(sampling.tfs_z);
}

void apply_tfs_z(Candidates& candidates, const SamplerContext& context) {
  if (candidates.count <= 2) return;
  const double z = double{context.sampling.tfs_z};
  const uint32_t count = candidates.count;
  if (!candidates.sorted) select_best(candidates.entries, count, count);
  candidates.sorted = true;
  candidates.by_id = false;
  const double total = total_weight(candidates);
  // Calls take(i, second difference i) for each i until it returns false.
  const auto each_second_difference = [&](auto take) {
    const auto p = [&](uint32_t i) { return weight(candidates, candidates.entries[i]) / total; };
    double next = p(1);
    double slope = p(0) - next;
    for (uint32_t i = 0; i + 2 < count; ++i) {
      const double after = p(i + 2);
      const double next_slope = next - after;
      if (!take(i, distance(slope, next_slope))) return;
      next = after;
      slope = next_slope;
    }
  };
  double sum = 0.0;
  each_second_difference([&](uint32_t, double bend) {
    sum += bend;
    return true;
  });
  double reached = 0.0;
  each_second_difference([&](uint32_t i, double bend) {
    reached += sum > 1e-6 ? bend / sum : 1.0 / static_cast<double>(count - 2);
    if (!(reached > z) || i == 0) return true;
    candidates.count = i;
    return false;
  });
}

// ---- typical_p: keeps the tokens whose surprise -ln p is nearest to the expected surprise (the
// entropy), until their total probability exceeds p. Meister et al. 2022, "Locally typical
// sampling". The distance is computed as |mean - d|, where d is ln of the weight and `mean` its
// expectation, so that no logarithm is needed. Equal distances are ordered by better().

namespace {

struct MoreTypical {
  double mean;  // expected difference of a token's logit and the maximum logit, at most 0
  float best;
  double shift(const Candidate& c) const { return distance(mean, double{c.logit} - double{best}); }
  bool operator()(const Candidate& a, const Candidate& b) const {
    const double shift_a = shift(a), shift_b = shift(b);
    return shift_a < shift_b || (shift_a == shift_b && better(a, b));
  }
};

}  // namespace

bool typical_p_on(const llmc_sampling& sampling) {
  return is_part(sampling.typical_p);
}

void apply_typical_p(Candidates& candidates, const SamplerContext& context) {
  double total = 0.0, moment = 0.0;
  each_weight(candidates, [&](uint32_t i, double weight) {
    if (weight == 0.0) return;
    total += weight;
    moment += weight * (double{candidates.entries[i].logit} - double{candidates.best});
  });
  const double enough = double{context.sampling.typical_p} * total;
  InOrder<MoreTypical> typical(candidates, {moment / total, candidates.best}, 0);
  uint32_t kept = 0;
  double reached = 0.0;
  float best = -kInfinity;
  while (kept < candidates.count && !(reached > enough)) {
    const Candidate& candidate = typical[kept++];
    reached += weight(candidates, candidate);
    if (candidate.logit > best) best = candidate.logit;
  }
  candidates.count = kept;
  candidates.best = best;
  candidates.sorted = false;
}

// ---- top_p: keeps the smallest set of most likely tokens with total probability p. Holtzman et
// al. 2019, "The curious case of neural text degeneration".

bool top_p_on(const llmc_sampling& sampling) {
  return is_part(sampling.top_p);
}

void apply_top_p(Candidates& candidates, const SamplerContext& context) {
  const double enough = double{context.sampling.top_p} * total_weight(candidates);
  auto best = best_first(candidates);
  uint32_t kept = 0;
  double reached = 0.0;
  while (kept < candidates.count && reached < enough) reached += weight(candidates, best[kept++]);
  candidates.count = kept;
  candidates.sorted = true;
}

// ---- min_p: keeps the tokens that are at least min_p times as likely as the most likely one.
// Nguyen et al. 2024, "Turning up the heat: min-p sampling".

bool min_p_on(const llmc_sampling& sampling) {
  return sampling.min_p > 0.0f;
}

void apply_min_p(Candidates& candidates, const SamplerContext& context) {
  const float min_p = context.sampling.min_p;
  const double least = min_p < 1.0f ? double{min_p} : 1.0;
  uint32_t kept = 0;
  each_weight(candidates, [&](uint32_t i, double weight) {
    if (weight >= least) candidates.entries[kept++] = candidates.entries[i];
  });
  if (kept < candidates.count) candidates.by_id = false;
  candidates.count = kept;  // the most likely token has weight 1 and is always kept
}

// ---- xtc, "exclude top choices": with probability xtc_probability, removes all tokens whose
// probability is at least xtc_threshold, except the least likely of them. p-e-w 2024, for
// text-generation-webui. Uses random stream kXtcDraw of the position.

bool xtc_on(const llmc_sampling& sampling) {
  return sampling.xtc_probability > 0.0f && sampling.xtc_threshold <= 0.5f;
}

void apply_xtc(Candidates& candidates, const SamplerContext& context) {
  const llmc_sampling& sampling = context.sampling;
  if (candidates.count < 2) return;
  const double chance = uniform_draw(sampling.seed, context.position(), kXtcDraw);
  if (chance >= double{sampling.xtc_probability}) return;
  const double least = double{sampling.xtc_threshold} * total_weight(candidates);
  auto best = best_first(candidates);
  uint32_t likely = 0;
  while (likely < candidates.count && weight(candidates, best[likely]) >= least &&
         best[likely].logit > -kInfinity)
    ++likely;
  if (likely < 2) return;
  candidates.entries += likely - 1;
  candidates.count -= likely - 1;
  candidates.best = candidates.entries[0].logit;
  candidates.sorted = best.ordered() - (likely - 1) == candidates.count;
  candidates.by_id = false;
}

// ---- temperature: divides the logits by it; 0 or less keeps only the most likely token.

bool temperature_on(const llmc_sampling& sampling) {
  return sampling.temperature != 1.0f;
}

void apply_temperature(Candidates& candidates, const SamplerContext& context) {
  const float temperature = context.sampling.temperature;
  if (temperature <= 0.0f) {
    if (!candidates.sorted) select_best(candidates.entries, candidates.count, 1);
    candidates.count = 1;
    candidates.sorted = true;
    candidates.by_id = false;
    return;
  }
  // Divide the difference to the maximum. This gives the same distribution, and a tiny temperature
  // cannot make several logits infinite.
  for (uint32_t i = 0; i < candidates.count; ++i) {
    const float below = candidates.entries[i].logit - candidates.best;
    candidates.entries[i].logit = below < 0.0f ? below / temperature : 0.0f;
  }
  candidates.best = 0.0f;
}

}  // namespace llmc::core

#include "exact_exp.h"
#include "sampler.h"

namespace llmc::core {
namespace {

// A heap with its worst entry at the root: what stands below entries[root] is heap-ordered already.
void sift_down(Candidate* entries, uint32_t count, uint32_t root) {
  const Candidate moving = entries[root];
  uint32_t hole = root;
  while (2 * uint64_t{hole} + 1 < count) {
    uint32_t child = 2 * hole + 1;
    if (child + 1 < count && better(entries[child], entries[child + 1])) ++child;
    if (!better(moving, entries[child])) break;
    entries[hole] = entries[child];
    hole = child;
  }
  entries[hole] = moving;
}

double weight(const Candidates& candidates, const Candidate& candidate) {
  return exact_exp(double{candidate.logit} - double{candidates.best});
}

}  // namespace

void select_best(Candidate* entries, uint32_t count, uint32_t n) {
  if (n > count) n = count;
  if (n == 0) return;
  for (uint32_t i = n / 2; i-- > 0;) sift_down(entries, n, i);
  for (uint32_t i = n; i < count; ++i) {
    if (!better(entries[i], entries[0])) continue;
    const Candidate evicted = entries[0];
    entries[0] = entries[i];
    entries[i] = evicted;
    sift_down(entries, n, 0);
  }
  for (uint32_t end = n; end-- > 1;) {
    const Candidate worst = entries[0];
    entries[0] = entries[end];
    entries[end] = worst;
    sift_down(entries, end, 0);
  }
}

void apply_top_k(Candidates& candidates, const llmc_sampling& sampling) {
  if (sampling.top_k <= 0) return;
  const uint32_t k = static_cast<uint32_t>(sampling.top_k);
  if (k >= candidates.count) return;
  if (!candidates.sorted) select_best(candidates.entries, candidates.count, k);
  candidates.count = k;
  candidates.sorted = true;
}

void apply_top_p(Candidates& candidates, const llmc_sampling& sampling) {
  if (!(sampling.top_p > 0.0f) || sampling.top_p >= 1.0f) return;
  double total = 0.0;
  for (uint32_t i = 0; i < candidates.count; ++i)
    total += weight(candidates, candidates.entries[i]);
  const double enough = double{sampling.top_p} * total;
  // Few candidates reach p as a rule: sort a first few, and twice as many while that is not enough.
  uint32_t ordered = candidates.sorted ? candidates.count : 0;
  uint32_t kept = 0;
  double reached = 0.0;
  while (kept < candidates.count && reached < enough) {
    if (kept == ordered) {
      const uint32_t left = candidates.count - ordered;
      uint32_t more = ordered == 0 ? 64 : ordered;
      if (more > left) more = left;
      select_best(candidates.entries + ordered, left, more);
      ordered += more;
    }
    reached += weight(candidates, candidates.entries[kept++]);
  }
  candidates.count = kept;
  candidates.sorted = true;
}

void apply_min_p(Candidates& candidates, const llmc_sampling& sampling) {
  if (!(sampling.min_p > 0.0f)) return;
  const double least = sampling.min_p < 1.0f ? double{sampling.min_p} : 1.0;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < candidates.count; ++i) {
    if (weight(candidates, candidates.entries[i]) >= least)
      candidates.entries[kept++] = candidates.entries[i];
  }
  candidates.count = kept;  // the best has weight 1 and stays
}

void apply_temperature(Candidates& candidates, const llmc_sampling& sampling) {
  // Relative to the best, which leaves the distribution alone and keeps a tiny temperature from
  // turning several logits into infinity.
  for (uint32_t i = 0; i < candidates.count; ++i) {
    const float below = candidates.entries[i].logit - candidates.best;
    candidates.entries[i].logit = below < 0.0f ? below / sampling.temperature : 0.0f;
  }
  candidates.best = 0.0f;
}

int32_t draw(Candidates& candidates, double uniform) {
  double total = 0.0;
  for (uint32_t i = 0; i < candidates.count; ++i) {
    // Rounded to float where the logit was: the second pass need not repeat the exponential.
    Candidate& candidate = candidates.entries[i];
    candidate.logit = static_cast<float>(weight(candidates, candidate));
    total += double{candidate.logit};
  }
  const double wanted = uniform * total;
  double reached = 0.0;
  int32_t last = candidates.entries[0].id;
  for (uint32_t i = 0; i < candidates.count; ++i) {
    const Candidate& candidate = candidates.entries[i];
    if (candidate.logit <= 0.0f) continue;
    reached += double{candidate.logit};
    last = candidate.id;
    if (reached > wanted) break;
  }
  return last;
}

}  // namespace llmc::core

#include "candidates.h"

namespace llmc::core {

double total_weight(const Candidates& candidates) {
  double total = 0.0;
  each_weight(candidates, [&](uint32_t, double weight) { total += weight; });
  return total;
}

float largest_logit(const Candidates& candidates) {
  float largest = -__builtin_inff();
  for (uint32_t i = 0; i < candidates.count; ++i) {
    if (candidates.entries[i].logit > largest) largest = candidates.entries[i].logit;
  }
  return largest;
}

float to_logit(double sum) {
  constexpr double kLargest = 0x1.fffffep127;
  if (sum == -__builtin_inf()) return -__builtin_inff();
  return static_cast<float>(sum > kLargest ? kLargest : sum < -kLargest ? -kLargest : sum);
}

float moved(float logit, double by) {
  return to_logit(double{logit} + by);
}

void select_best(Candidate* entries, uint32_t count, uint32_t n) {
  select_first(entries, count, n, Better{});
}

Drawn draw(Candidates& candidates, double uniform) {
  double total = 0.0;
  each_weight(candidates, [&](uint32_t i, double weight) {
    // Replace the logit with the weight, rounded to float, so that the second pass need not compute
    // the exponential again.
    candidates.entries[i].logit = static_cast<float>(weight);
    total += double{candidates.entries[i].logit};
  });
  const double wanted = uniform * total;
  double reached = 0.0;
  const Candidate* drawn = candidates.entries;
  for (uint32_t i = 0; i < candidates.count; ++i) {
    const Candidate& candidate = candidates.entries[i];
    if (candidate.logit <= 0.0f) continue;
    reached += double{candidate.logit};
    drawn = &candidate;
    if (reached > wanted) break;
  }
  return {drawn->id, double{drawn->logit} / total};
}

}  // namespace llmc::core

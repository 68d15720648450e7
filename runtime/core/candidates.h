#pragma once

#include <stdint.h>

#include "exact_exp.h"
#include "llmc/arena.h"

/// The candidates for the next token, and the operations that sampler stages perform on them.
namespace llmc::core {

struct Candidate {
  float logit;
  int32_t id;
};
static_assert(sizeof(Candidate) == LLMC_CANDIDATE_BYTES);

/// Returns whether `a` comes before `b` in the common order of candidates: higher logit first, then
/// lower id.
inline bool better(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// The remaining candidates, stored in the arena. A token with a logit of -infinity cannot be
/// drawn.
struct Candidates {
  Candidate* entries;
  uint32_t count;
  float best;   // maximum logit; finite
  bool sorted;  // the entries are in the order of better()
  bool by_id;   // contains all tokens of the vocabulary, and entries[id].id == id
};

/// Returns e^(logit - best), in 0 .. 1: the candidate's probability times a factor that is the same
/// for all candidates.
inline double weight(const Candidates& candidates, const Candidate& candidate) {
  return exact_exp(double{candidate.logit} - double{candidates.best});
}
/// Calls take(i, weight of entry i) for all entries, in their order.
template <class Take>
void each_weight(const Candidates& candidates, Take take) {
  const double best = double{candidates.best};
  const auto below = [&](uint32_t i) { return double{candidates.entries[i].logit} - best; };
  each_exp(candidates.count, below, take);
}
/// Returns the sum of all weights, added in the order of the entries.
double total_weight(const Candidates& candidates);
/// Returns the maximum logit; -infinity if no token can be drawn.
float largest_logit(const Candidates& candidates);
/// Returns the float nearest to `sum`, limited to finite values unless `sum` is -infinity.
float to_logit(double sum);
/// Returns logit + by. The result is limited to finite values if the logit is finite and `by` is
/// not -infinity.
float moved(float logit, double by);

/// Moves entries[root] down to its place in a heap whose root is the last entry in the order of
/// `before`. Both subtrees of `root` must be heaps.
template <class Before>
void sift_down(Candidate* entries, uint32_t count, uint32_t root, const Before& before) {
  const Candidate moving = entries[root];
  uint32_t hole = root;
  while (2 * uint64_t{hole} + 1 < count) {
    uint32_t child = 2 * hole + 1;
    if (child + 1 < count && before(entries[child], entries[child + 1])) ++child;
    if (!before(moving, entries[child])) break;
    entries[hole] = entries[child];
    hole = child;
  }
  entries[hole] = moving;
}

/// Moves the first `n` entries in the order of `before`, a strict total order, to the front and
/// sorts them. In place; O(count · log n).
template <class Before>
void select_first(Candidate* entries, uint32_t count, uint32_t n, const Before& before) {
  if (n > count) n = count;
  if (n == 0) return;
  for (uint32_t i = n / 2; i-- > 0;) sift_down(entries, n, i, before);
  for (uint32_t i = n; i < count; ++i) {
    if (!before(entries[i], entries[0])) continue;
    const Candidate evicted = entries[0];
    entries[0] = entries[i];
    entries[i] = evicted;
    sift_down(entries, n, 0, before);
  }
  for (uint32_t end = n; end-- > 1;) {
    const Candidate last = entries[0];
    entries[0] = entries[end];
    entries[end] = last;
    sift_down(entries, end, 0, before);
  }
}

struct Better {
  bool operator()(const Candidate& a, const Candidate& b) const { return better(a, b); }
};
/// Calls select_first() with the order of better().
void select_best(Candidate* entries, uint32_t count, uint32_t n);

/// Sorts the candidates lazily, when they are accessed: first 64, then each time as many again as
/// are already sorted.
template <class Before>
class InOrder {
 public:
  /// Requires that the first `ordered` entries are already sorted.
  InOrder(Candidates& candidates, Before before, uint32_t ordered)
      : candidates_(candidates), before_(before), ordered_(ordered) {}

  /// Returns the i-th candidate. Requires i < count, and i at most one more than the largest index
  /// accessed so far.
  const Candidate& operator[](uint32_t i) {
    if (i >= ordered_) {
      const uint32_t left = candidates_.count - ordered_;
      uint32_t more = ordered_ == 0 ? 64 : ordered_;
      if (more > left) more = left;
      select_first(candidates_.entries + ordered_, left, more, before_);
      ordered_ += more;
      candidates_.by_id = false;
    }
    return candidates_.entries[i];
  }
  /// Returns how many entries at the front are sorted.
  uint32_t ordered() const { return ordered_; }

 private:
  Candidates& candidates_;
  const Before before_;
  uint32_t ordered_;
};

/// Returns a view that begins with the most likely candidate.
inline InOrder<Better> best_first(Candidates& candidates) {
  return {candidates, Better{}, candidates.sorted ? candidates.count : 0};
}

struct Drawn {
  int32_t token;
  double probability;  // among the remaining candidates
};
/// Draws one candidate with a probability proportional to its weight. Overwrites the logits with
/// the weights. `uniform` is in [0, 1).
Drawn draw(Candidates& candidates, double uniform);

}  // namespace llmc::core

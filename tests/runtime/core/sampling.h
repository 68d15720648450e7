#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/core/sampler.h"

/// What tests of the sampler share.
namespace llmc::core {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

using Ids = std::vector<std::int32_t>;

/// Parameters with some of them set: sampling([](auto& s) { s.top_k = 3; }).
template <class Set>
llmc_sampling sampling(Set set) {
  llmc_sampling s{};
  set(s);
  return s;
}

/// Tokens in blocks of 4, as the cache has them.
class Tokens {
 public:
  Tokens() = default;
  Tokens(const Ids& ids) : ids_(ids), padded_(ids) {
    padded_.resize(padded_.size() + 3);
    for (std::size_t i = 0; i < padded_.size(); i += 4)
      blocks_.push_back(reinterpret_cast<unsigned char*>(padded_.data() + i));
  }
  Tokens(const Tokens&) = delete;
  Tokens& operator=(const Tokens&) = delete;

  TokenHistory history() const {
    return {blocks_.data(), 4, static_cast<std::uint32_t>(ids_.size())};
  }
  const Ids& ids() const { return ids_; }

 private:
  Ids ids_, padded_;
  std::vector<unsigned char*> blocks_;
};

/// Sequence breakers as the C interface takes them.
class BreakerTable {
 public:
  explicit BreakerTable(std::vector<Ids> sequences) {
    std::sort(sequences.begin(), sequences.end());
    for (const Ids& sequence : sequences) {
      heads_.push_back(sequence[0]);
      begins_.push_back(static_cast<std::uint32_t>(tails_.size()));
      tails_.insert(tails_.end(), sequence.begin() + 1, sequence.end());
    }
    begins_.push_back(static_cast<std::uint32_t>(tails_.size()));
  }
  llmc_dry_breakers table() const {
    return {heads_.data(), begins_.data(), tails_.data(),
            static_cast<std::uint32_t>(heads_.size())};
  }

 private:
  Ids heads_, tails_;
  std::vector<std::uint32_t> begins_;
};

inline std::vector<float> logs(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

inline std::vector<Candidate> entries_of(const std::vector<float>& logits) {
  std::vector<Candidate> entries(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    entries[i] = {logits[i], static_cast<std::int32_t>(i)};
  return entries;
}

inline std::uint32_t first_of_largest(const std::vector<float>& logits) {
  std::uint32_t best = 0;
  float largest = -kInf;
  for (std::uint32_t i = 0; i < logits.size(); ++i)
    if (logits[i] > largest) largest = logits[i], best = i;
  return best;
}

/// One stage after the tokens' history; nothing when its parameters switch it off.
inline std::vector<Candidate> after_stage(std::uint8_t name, const std::vector<float>& logits,
                                          const llmc_sampling& sampling, const Tokens& tokens = {},
                                          const llmc_dry_breakers& breakers = {}) {
  auto entries = entries_of(logits);
  Candidates candidates{entries.data(), static_cast<std::uint32_t>(entries.size()),
                        logits[first_of_largest(logits)], false, true};
  const SamplerStage& stage = *find_stage(name);
  const TokenHistory history = tokens.history();
  if (stage.on(sampling)) stage.apply(candidates, {sampling, history, breakers});
  std::vector<Candidate> left(candidates.entries, candidates.entries + candidates.count);
  // What the next stages rely on.
  float best = -kInf;
  for (std::size_t i = 0; i < left.size(); ++i) {
    best = std::max(best, left[i].logit);
    if (candidates.by_id) EXPECT_EQ(left[i].id, static_cast<std::int32_t>(i));
    if (candidates.sorted && i > 0) EXPECT_TRUE(better(left[i - 1], left[i]));
  }
  if (candidates.by_id) EXPECT_EQ(left.size(), logits.size());
  EXPECT_EQ(candidates.best, best);
  return left;
}

inline Ids ids_of(const std::vector<Candidate>& candidates) {
  Ids ids;
  for (const Candidate& candidate : candidates) ids.push_back(candidate.id);
  return ids;
}

/// Ids left by one stage, of tokens with the given probabilities.
inline Ids kept_by(std::uint8_t name, const std::vector<double>& probabilities,
                   const llmc_sampling& sampling) {
  return ids_of(after_stage(name, logs(probabilities), sampling));
}

/// sample_token with the best token as a model's head gives it, at a position whose tokens are not
/// looked at.
inline llmc_status sampled(const std::vector<float>& logits, const llmc_sampling& sampling,
                           std::uint64_t position, std::int32_t& token) {
  std::vector<Candidate> room(logits.size());
  const TokenHistory history(nullptr, 1, static_cast<std::uint32_t>(position));
  Choice choice{token, 0.0f};
  const llmc_status status = sample_token({.logits = logits.data(),
                                           .vocab = static_cast<std::uint32_t>(logits.size()),
                                           .best = first_of_largest(logits),
                                           .history = history,
                                           .sampling = sampling},
                                          room.data(), &choice);
  token = choice.token;
  return status;
}

}  // namespace llmc::core

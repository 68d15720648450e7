#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// What is summed over the counted tokens of a text: how well they were predicted, and how far a
/// model's distributions are from another's. All in double.
namespace llmc::evaluate {

/// A measured value and its standard error.
struct Estimate {
  double value = 0, error = 0;
};

/// Mean of values that come one by one (Welford's recurrence: no cancellation).
class RunningMean {
 public:
  void add(double value);
  std::uint64_t count() const { return count_; }
  /// With its standard error, sqrt(variance / (count - 1)) where the variance is the mean of
  /// squared deviations, as llama.cpp has it; 0 of fewer than two values.
  Estimate mean() const;

 private:
  std::uint64_t count_ = 0;
  double mean_ = 0, squares_ = 0;  // squares_: sum of squared deviations
};

/// Of sorted values, at least one, between neighbours by their distance: place part·(n - 1).
double quantile(std::span<const double> sorted, double part);

/// How far the tested model is from the base.
struct Divergence {
  Estimate base_perplexity;
  Estimate ratio;  // perplexity / base_perplexity; the error is that of paired values
  Estimate kl;     // mean of kl_divergence(), nats
  double median = 0, p90 = 0, p99 = 0, p999 = 0, largest = 0;
  Estimate same_top;  // part of the tokens for which both have the same likeliest one
};

class Scores {
 public:
  /// `token` came after `logits`. False, and nothing is counted, when that costs no finite number
  /// of nats: a NaN among the logits, an infinite one, or a token that cannot come.
  [[nodiscard]] bool add(std::span<const float> logits, std::int32_t token);
  /// The same with what the base says at the same place. A Scores takes one kind of call only.
  [[nodiscard]] bool add(std::span<const float> logits, std::int32_t token,
                         std::span<const float> base);

  std::uint64_t count() const { return loss_.count(); }
  Estimate mean_loss() const { return loss_.mean(); }  // -ln p, nats
  Estimate perplexity() const;
  /// nullopt without a base. Keeps 8 bytes of each token until now.
  std::optional<Divergence> divergence() const;

 private:
  RunningMean loss_, base_loss_, difference_, kl_;
  std::vector<double> kl_values_;
  std::uint64_t same_ = 0;
};

}  // namespace llmc::evaluate

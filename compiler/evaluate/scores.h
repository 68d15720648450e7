#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// Computes statistics over the counted tokens of a text, in double: their loss, and the divergence
/// of a model's distributions from those of a base model.
namespace llmc::evaluate {

/// A measured value and its standard error.
struct Estimate {
  double value = 0, error = 0;
};

/// Computes the mean of values as they are added (Welford's recurrence, which avoids cancellation).
class RunningMean {
 public:
  void add(double value);
  std::uint64_t count() const { return count_; }
  /// Returns the mean and its standard error, sqrt(variance / (count - 1)). The variance is the
  /// mean of squared deviations, as in llama.cpp. The error is 0 for fewer than two values.
  Estimate mean() const;

 private:
  std::uint64_t count_ = 0;
  double mean_ = 0, squares_ = 0;  // squares_: sum of squared deviations
};

/// Returns the quantile at fraction `part` of n sorted values, n > 0, by linear interpolation at
/// index part · (n - 1).
double quantile(std::span<const double> sorted, double part);

/// Statistics of how the tested model's distributions differ from the base model's.
struct Divergence {
  Estimate base_perplexity;
  /// Perplexity / base_perplexity; its error takes into account that the values are paired.
  Estimate ratio;
  Estimate kl;  // mean of kl_divergence(), in nats
  double median = 0, p90 = 0, p99 = 0, p999 = 0, largest = 0;
  Estimate same_top;  // fraction of tokens for which both have the same most probable token
};

/// Collects the losses of tokens and, with a base model, the divergences.
class Scores {
 public:
  /// Counts `token`, which follows `logits`. If its loss is not finite (NaN or infinite logits, or
  /// a probability of 0), returns false and does not count it.
  [[nodiscard]] bool add(std::span<const float> logits, std::int32_t token);
  /// Counts `token` like add() above; `base` are the base model's logits for it. Returns false also
  /// if the base model's loss or the divergence is not finite. Use only one of the two functions
  /// with an object.
  [[nodiscard]] bool add(std::span<const float> logits, std::int32_t token,
                         std::span<const float> base);

  std::uint64_t count() const { return loss_.count(); }
  Estimate mean_loss() const { return loss_.mean(); }  // mean of -ln p, in nats
  Estimate perplexity() const;
  /// Returns nullopt if there is no base model or no counted token. Needs 8 bytes of memory per
  /// counted token.
  std::optional<Divergence> divergence() const;

 private:
  RunningMean loss_, base_loss_, difference_, kl_;
  std::vector<double> kl_values_;
  std::uint64_t same_ = 0;
};

}  // namespace llmc::evaluate

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// Statistics over the counted tokens of a text, in double: their loss, and the divergence of a
/// model's distributions from those of a base model.
namespace llmc::evaluate {

/// A measured value and its standard error.
struct Estimate {
  double value = 0, error = 0;
};

/// Running mean of values (Welford's recurrence, without cancellation).
class RunningMean {
 public:
  void add(double value);
  std::uint64_t count() const { return count_; }
  /// The mean and its standard error, sqrt(variance / (count - 1)), where the variance is the mean
  /// of squared deviations as in llama.cpp; 0 for fewer than two values.
  Estimate mean() const;

 private:
  std::uint64_t count_ = 0;
  double mean_ = 0, squares_ = 0;  // squares_: sum of squared deviations
};

/// Quantile `part` of n sorted values, n > 0: linear interpolation at index part · (n - 1).
double quantile(std::span<const double> sorted, double part);

/// Divergence of the tested model from the base.
struct Divergence {
  Estimate base_perplexity;
  Estimate ratio;  // perplexity / base_perplexity, with the error of paired values
  Estimate kl;     // mean of kl_divergence(), nats
  double median = 0, p90 = 0, p99 = 0, p999 = 0, largest = 0;
  Estimate same_top;  // fraction of tokens for which both have the same most probable token
};

class Scores {
 public:
  /// Counts `token`, which follows `logits`. Returns false without counting it if its loss is not
  /// finite: for NaN or infinite logits, or a probability of 0.
  [[nodiscard]] bool add(std::span<const float> logits, std::int32_t token);
  /// The same with the base's logits for this token. A Scores gets only one kind of call.
  [[nodiscard]] bool add(std::span<const float> logits, std::int32_t token,
                         std::span<const float> base);

  std::uint64_t count() const { return loss_.count(); }
  Estimate mean_loss() const { return loss_.mean(); }  // -ln p, nats
  Estimate perplexity() const;
  /// nullopt without a base. Needs 8 bytes of memory per counted token.
  std::optional<Divergence> divergence() const;

 private:
  RunningMean loss_, base_loss_, difference_, kl_;
  std::vector<double> kl_values_;
  std::uint64_t same_ = 0;
};

}  // namespace llmc::evaluate

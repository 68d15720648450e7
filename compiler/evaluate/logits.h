#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

struct XXH64_state_s;

/// What commands say about vectors of logits.
namespace llmc::evaluate {

/// A sequence of `count` ids that wanders through the whole vocabulary, the same for every model of
/// that size.
std::vector<std::int32_t> fixed_prompt(std::uint32_t vocabulary, std::size_t count);

/// The bits of a logit. Every NaN has the same: which NaN an invalid operation gives is up to the
/// processor, and no part of the numerics (docs/numerics.md).
std::uint32_t logit_bits(float logit);

/// Hash over logit_bits of logit vectors in the order they were added: xxh64, seed 0.
class LogitHash {
 public:
  LogitHash();
  LogitHash(const LogitHash&) = delete;
  LogitHash& operator=(const LogitHash&) = delete;
  ~LogitHash();

  void add(std::span<const float> logits);
  /// 16 hexadecimal digits.
  std::string text() const;

 private:
  XXH64_state_s* state_;
};

/// log(sum(exp(x))) in double, of at least one value: x - log_sum_exp is the log of the softmax.
double log_sum_exp(std::span<const float> logits);

/// The token with the largest logit; among equals the lowest.
std::int32_t likeliest(std::span<const float> logits);

/// Kullback-Leibler divergence of softmax(tested) from softmax(base), in nats: the sum of
/// p_base · (ln p_base - ln p_tested) over the vocabulary. Each with its log_sum_exp. At least 0;
/// infinite where tested rules out what base does not; NaN where a logit is.
double kl_divergence(std::span<const float> base, double base_log_sum,
                     std::span<const float> tested, double tested_log_sum);

}  // namespace llmc::evaluate

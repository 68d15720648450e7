#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

struct XXH64_state_s;

/// Hashes and statistics of logit vectors.
namespace llmc::evaluate {

/// A pseudorandom sequence of `count` ids from the whole vocabulary; depends on its size only.
std::vector<std::int32_t> fixed_prompt(std::uint32_t vocabulary, std::size_t count);

/// The bits of a logit, the same for every NaN: sign and payload of NaN depend on the processor and
/// are not specified (docs/numerics.md).
std::uint32_t logit_bits(float logit);

/// xxh64 with seed 0 over logit_bits of logit vectors, in the order of add().
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

/// log(sum(exp(x))) in double; x must not be empty. x - log_sum_exp is the log of the softmax.
double log_sum_exp(std::span<const float> logits);

/// The token with the largest logit; of equal ones the lowest id.
std::int32_t likeliest(std::span<const float> logits);

/// Kullback-Leibler divergence of softmax(tested) from softmax(base), in nats: the sum of
/// p_base · (ln p_base - ln p_tested) over the vocabulary. Takes the log_sum_exp of each. At least
/// 0; infinite if p_tested is 0 for a token whose p_base is not; NaN if a logit is NaN.
double kl_divergence(std::span<const float> base, double base_log_sum,
                     std::span<const float> tested, double tested_log_sum);

}  // namespace llmc::evaluate

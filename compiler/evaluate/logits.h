#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/exec/session.h"

struct XXH64_state_s;

/// Hashes and statistics of logit vectors.
namespace llmc::evaluate {

/// Returns `count` pseudorandom ids below `vocabulary`, always the same for the same arguments.
std::vector<std::int32_t> fixed_prompt(std::uint32_t vocabulary, std::size_t count);
/// Returns the fixed pseudorandom source with which `verify` and `identity` run an encoder-decoder;
/// empty for a decoder. It is short: 21 ids, or eight times the encoder's minimum number of frames,
/// but at most the maximum of the model.
exec::EncoderInput fixed_source(const exec::ModelFacts& model);

/// Returns the bits of a logit, the same value for all NaN: the sign and payload of NaN depend on
/// the processor and are not specified (docs/numerics.md).
std::uint32_t logit_bits(float logit);

/// Hash of logit vectors: xxh64 with seed 0 over the logit_bits() of all logits, in the order of
/// add().
class LogitHash {
 public:
  LogitHash();
  LogitHash(const LogitHash&) = delete;
  LogitHash& operator=(const LogitHash&) = delete;
  ~LogitHash();

  void add(std::span<const float> logits);
  /// Returns the hash as 16 hexadecimal digits.
  std::string text() const;

 private:
  XXH64_state_s* state_;
};

/// Returns log(sum(exp(x))) over `logits`, in double. Requires at least one logit. The
/// log-probability of a token is its logit minus this value.
double log_sum_exp(std::span<const float> logits);

/// Returns the token with the largest logit; the lowest id if several are equal.
std::int32_t likeliest(std::span<const float> logits);

/// Returns the divergence KL(softmax(base) || softmax(tested)) in nats: the sum of p_base · (ln
/// p_base - ln p_tested) over the vocabulary. `base_log_sum` and `tested_log_sum` are the
/// log_sum_exp() of `base` and `tested`. The result is at least 0; infinite if p_tested is 0 for a
/// token with p_base > 0; NaN if a logit is NaN.
double kl_divergence(std::span<const float> base, double base_log_sum,
                     std::span<const float> tested, double tested_log_sum);

}  // namespace llmc::evaluate

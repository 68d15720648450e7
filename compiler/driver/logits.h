#pragma once

#include <span>
#include <string>

struct XXH64_state_s;

/// What commands say about vectors of logits.
namespace llmc::driver {

/// Hash over the bits of logit vectors in the order they were added: xxh64, seed 0.
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

}  // namespace llmc::driver

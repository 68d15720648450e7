#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace llmc::models {

/// Normally distributed numbers indexed by their position in a stream, so that any piece of a
/// tensor can be generated independently, with equal results on every machine. A number is one of
/// 65536 quantiles of N(0, 1), selected by 16 bits of splitmix64's mixing function (Steele, Lea and
/// Flood 2014) of stream and position; the maximum is 4.3.
class NormalStream {
 public:
  /// Streams with different `seed` or `stream` are independent.
  NormalStream(std::uint64_t seed, std::uint64_t stream);

  /// Returns which of the 65536 quantiles number `index` is.
  std::uint32_t quantile(std::uint64_t index) const {
    return static_cast<std::uint32_t>(bits(index / 4) >> index % 4 * 16 & 0xffffu);
  }
  /// Writes the quantiles of numbers [first, first + out.size()), each looked up in `values` (65536
  /// elements).
  void fill(std::uint64_t first, std::span<const std::uint16_t> values,
            std::span<std::uint16_t> out) const;

 private:
  /// Returns the random bits of four consecutive numbers.
  std::uint64_t bits(std::uint64_t group) const;
  std::uint64_t key_;
};

inline constexpr std::size_t kQuantiles = 65536;

/// Returns quantile i of N(0, 1), where the distribution function is (i + 0.5) / 65536.
double normal_quantile(std::uint32_t i);

/// Returns all quantiles of N(mean, deviation^2) in order, rounded to f16, or to bf16 and then f16
/// (`through_bf16`), as bits.
std::vector<std::uint16_t> f16_quantiles(double mean, double deviation, bool through_bf16 = false);
/// Same as bits of bf16.
std::vector<std::uint16_t> bf16_quantiles(double mean, double deviation);

}  // namespace llmc::models

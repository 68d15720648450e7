#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace llmc::models {

/// Stream of normally distributed numbers. A number depends only on seed, stream and position, so
/// any part of a tensor can be generated independently, with equal results on every machine. Each
/// number is one of 65536 quantiles of N(0, 1), selected by 16 bits of splitmix64's mixing function
/// (Steele, Lea and Flood 2014). The maximum is 4.3.
class NormalStream {
 public:
  /// Streams with different `seed` or `stream` are independent.
  NormalStream(std::uint64_t seed, std::uint64_t stream);

  /// Returns the index, 0 to 65535, of the quantile at position `index`.
  std::uint32_t quantile(std::uint64_t index) const {
    return static_cast<std::uint32_t>(bits(index / 4) >> index % 4 * 16 & 0xffffu);
  }
  /// Writes numbers [first, first + out.size()) to `out`, where `values` contains the value of each
  /// of the 65536 quantiles.
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
/// Returns all quantiles of N(mean, deviation^2) in order, rounded to bf16, as bits.
std::vector<std::uint16_t> bf16_quantiles(double mean, double deviation);

}  // namespace llmc::models

#pragma once

#include <cstdint>
#include <span>

namespace llmc::quant {

/// Accumulates the error of decoded weights relative to the original weights.
struct ErrorStats {
  std::uint64_t count = 0;
  double squared_error = 0, squared_weight = 0;  // sums of squares
  double largest_error = 0;

  /// Adds a row or a whole matrix; both spans must have the same length.
  void add(std::span<const float> original, std::span<const float> decoded);
  /// Returns sqrt(sum of squared errors / sum of squared weights); 0 if all weights are 0.
  double relative_rms() const;
};

}  // namespace llmc::quant

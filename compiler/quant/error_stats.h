#pragma once

#include <cstdint>
#include <span>

namespace llmc::quant {

/// How far decoded weights are from the original ones.
struct ErrorStats {
  std::uint64_t count = 0;
  double squared_error = 0, squared_weight = 0;  // sums
  double largest_error = 0;

  /// Adds a row or a whole matrix; both spans have the same length.
  void add(std::span<const float> original, std::span<const float> decoded);
  /// sqrt(sum of squared errors / sum of squared weights); 0 for weights that are all 0.
  double relative_rms() const;
};

}  // namespace llmc::quant

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

namespace llmc::quant {

/// Accumulates the error of decoded weights relative to the original weights.
struct ErrorStats {
  std::uint64_t count = 0;
  double squared_error = 0, squared_weight = 0;  // sums of squares
  double largest_error = 0;

  /// Adds a row or a whole matrix; both spans must have the same length.
  void add(std::span<const float> original, std::span<const float> decoded) {
    ASSERT_EQ(original.size(), decoded.size());
    for (std::size_t i = 0; i < original.size(); ++i) {
      const double weight = static_cast<double>(original[i]);
      const double error = static_cast<double>(decoded[i]) - weight;
      squared_error += error * error;
      squared_weight += weight * weight;
      largest_error = std::max(largest_error, std::abs(error));
    }
    count += original.size();
  }
  /// Returns sqrt(sum of squared errors / sum of squared weights); 0 if all weights are 0.
  double relative_rms() const {
    return squared_weight > 0 ? std::sqrt(squared_error / squared_weight) : 0;
  }
};

}  // namespace llmc::quant

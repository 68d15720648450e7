#include "compiler/quant/error_stats.h"

#include <algorithm>
#include <cmath>

#include "compiler/support/check.h"

namespace llmc::quant {

void ErrorStats::add(std::span<const float> original, std::span<const float> decoded) {
  LLMC_CHECK(original.size() == decoded.size());
  for (std::size_t i = 0; i < original.size(); ++i) {
    const double weight = static_cast<double>(original[i]);
    const double error = static_cast<double>(decoded[i]) - weight;
    squared_error += error * error;
    squared_weight += weight * weight;
    largest_error = std::max(largest_error, std::abs(error));
  }
  count += original.size();
}

double ErrorStats::relative_rms() const {
  return squared_weight > 0 ? std::sqrt(squared_error / squared_weight) : 0;
}

}  // namespace llmc::quant

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace llmc {

/// Returns the median of an unsorted list; 0 if it is empty.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  if (n == 0) return 0;
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// Returns the percentile at fraction `part` (0 to 1) of an unsorted list, by the nearest-rank
/// method. Requires at least one value.
inline double percentile(std::vector<double> values, double part) {
  std::ranges::sort(values);
  const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

/// Returns the standard deviation of a sample; 0 if it has fewer than two values.
inline double sample_deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const auto count = static_cast<double>(values.size());
  double mean = 0, squares = 0;
  for (const double v : values) mean += v / count;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / (count - 1));
}

}  // namespace llmc

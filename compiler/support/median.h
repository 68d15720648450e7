#pragma once

#include <algorithm>
#include <vector>

namespace llmc {

/// Median of an unsorted list; 0 of an empty one.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  if (n == 0) return 0;
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace llmc

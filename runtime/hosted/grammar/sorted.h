#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

/// Operations on sets that are stored as sorted vectors without duplicates.
namespace llmc::hosted::grammar {

/// Sorts and removes duplicates.
inline void sort_unique(std::vector<std::uint32_t>& values) {
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
}

inline std::vector<std::uint32_t> merged(const std::vector<std::uint32_t>& a,
                                         const std::vector<std::uint32_t>& b) {
  std::vector<std::uint32_t> result;
  std::ranges::set_union(a, b, std::back_inserter(result));
  return result;
}

}  // namespace llmc::hosted::grammar

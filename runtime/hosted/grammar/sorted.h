#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

/// Sets of numbers as sorted lists, each once.
namespace llmc::hosted::grammar {

/// Makes a set of a list.
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

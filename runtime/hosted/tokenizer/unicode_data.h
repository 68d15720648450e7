#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

/// The data of unicode.h.
namespace llmc::hosted {

#include "runtime/hosted/tokenizer/unicode_tables.inc"

/// Returns the value of the run that contains `code_point`. Each entry is the first code point of a
/// run, shifted left by `bits`, combined with the value of the run.
template <std::size_t N>
std::uint32_t run_value(const std::uint32_t (&runs)[N], std::uint32_t code_point, unsigned bits) {
  const std::uint32_t mask = (std::uint32_t{1} << bits) - 1;
  const auto* after = std::upper_bound(std::begin(runs), std::end(runs), code_point << bits | mask);
  return *std::prev(after) & mask;
}

}  // namespace llmc::hosted

#pragma once

#include <span>
#include <string_view>

namespace llmc {

/// Returns the member of `known` that `word` was probably meant to be: with at most two letters
/// inserted, deleted or changed, or neighbours swapped. Empty if there is none. Words longer than
/// 80 have no match.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

}  // namespace llmc

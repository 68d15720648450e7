#pragma once

#include <span>
#include <string_view>

namespace llmc {

/// The one of `known` that `word` was probably meant to be: at most two letters were added, dropped
/// or changed, or neighbours swapped. Empty when there is none. Words longer than 80 resemble none.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

}  // namespace llmc

#pragma once

#include <span>
#include <string_view>

namespace llmc {

/// Returns the member of `known` that is most similar to `word`, with at most two edits: a letter
/// inserted, deleted or changed, or two adjacent letters swapped. Empty if there is none, or if
/// `word` is longer than 80 bytes.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

}  // namespace llmc

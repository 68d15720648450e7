#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace llmc::hosted {

/// Unicode's general categories L* and N*, and White_Space.
bool is_letter(std::uint32_t code_point);
bool is_number(std::uint32_t code_point);
bool is_space(std::uint32_t code_point);

/// Bytes (> 0) of the first word of `text` (not empty), as Qwen's tokenizers split it:
///
///     (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N}
///     | ?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
///
/// A byte that is no UTF-8 counts as a character that is neither letter, number nor space.
std::size_t first_word(std::string_view text);

}  // namespace llmc::hosted

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace llmc::hosted {

/// Unicode's general categories L* and N*, and White_Space.
bool is_letter(std::uint32_t code_point);
bool is_number(std::uint32_t code_point);
bool is_space(std::uint32_t code_point);

/// How a tokenizer splits text into words before it merges bytes. With
///   C = 's | 't | 're | 've | 'm | 'll | 'd      L = \p{L}, N = \p{N}
enum class SplitPattern : std::uint8_t {
  /// C | ?L+ | ?N+ | ?[^\sLN]+ | \s+(?!\S) | \s+
  kGpt2,
  /// (?i:C) | [^\r\nLN]?L+ | N{1,3} | ?[^\sLN]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
  kLlama3,
  /// The same with N for N{1,3}.
  kQwen2,
};

/// Bytes (> 0) of the first word of `text` (not empty). A byte that is no UTF-8 counts as a
/// character that is neither letter, number nor space.
std::size_t first_word(std::string_view text, SplitPattern pattern);

}  // namespace llmc::hosted

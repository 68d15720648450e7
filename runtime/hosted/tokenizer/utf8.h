#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace llmc::hosted {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Utf8Char {
  std::uint32_t code_point = 0;
  std::size_t bytes = 0;  // 0: not UTF-8, or the end of the text
};

/// Decodes the character at the start of `text`. Overlong forms, surrogates and values above
/// U+10FFFF are invalid.
Utf8Char decode_utf8(std::string_view text);

/// Returns whether all of `text` is valid UTF-8.
bool is_utf8(std::string_view text);

/// Appends a code point (not a surrogate, at most U+10FFFF) in UTF-8.
void append_utf8(std::uint32_t code_point, std::string& out);

/// Returns whether `text` is an incomplete character whose remaining bytes may still follow.
bool is_utf8_prefix(std::string_view text);

/// Moves the complete characters of `pending` to the result, with invalid bytes as U+FFFD; leaves
/// at most three bytes that may become a character. `last`: nothing follows, so nothing is left.
std::string take_whole_utf8(std::string& pending, bool last);

}  // namespace llmc::hosted

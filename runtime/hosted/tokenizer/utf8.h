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

/// Returns whether `text` is an incomplete character, which further bytes may complete.
bool is_utf8_prefix(std::string_view text);

/// Removes the complete characters from `pending` and returns them, with U+FFFD for each invalid
/// byte. Leaves at most three bytes that may become a character. With `last`, no text follows, so
/// it leaves nothing.
std::string take_whole_utf8(std::string& pending, bool last);

}  // namespace llmc::hosted

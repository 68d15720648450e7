#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace llmc::hosted {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Utf8Char {
  std::uint32_t code_point = 0;
  std::size_t bytes = 0;  // 0: what stands there is no UTF-8 (or nothing)
};

/// The character at the start of `text`. Overlong forms, surrogates and values above U+10FFFF are
/// no UTF-8.
Utf8Char decode_utf8(std::string_view text);

/// Whether all of `text` is UTF-8.
bool is_utf8(std::string_view text);

/// Appends a code point (not a surrogate, at most U+10FFFF) in UTF-8.
void append_utf8(std::uint32_t code_point, std::string& out);

/// Whether `text` is the beginning of a character whose other bytes may still follow.
bool is_utf8_prefix(std::string_view text);

/// Moves what is whole of `pending` into the result, every byte that is no UTF-8 as U+FFFD; leaves
/// at most three bytes that may become a character. `last`: nothing follows, so nothing is left.
std::string take_whole_utf8(std::string& pending, bool last);

}  // namespace llmc::hosted

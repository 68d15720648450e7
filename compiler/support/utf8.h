#pragma once

#include <cstddef>
#include <string_view>

namespace llmc {

/// Returns the size in bytes of the printable character at the start of `text`. Returns 0 if `text`
/// is empty, or if the character must be escaped for a terminal or a text file: a control
/// character, a byte that is not valid UTF-8, a character that changes the direction or the line of
/// the surrounding text, or a byte order mark.
std::size_t printable_utf8_length(std::string_view text);

/// Appends "\xNN".
template <class String>
void append_hex_escape(String& out, unsigned char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += "\\x";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

}  // namespace llmc

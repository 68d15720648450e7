#pragma once

#include <cstddef>
#include <string_view>

namespace llmc {

/// Returns the size in bytes of the printable character at the start of `text`. Returns 0 if it
/// must be escaped for a terminal or a text file: a control character, a byte that is not valid
/// UTF-8, or a character that changes the direction or the line of the surrounding text.
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

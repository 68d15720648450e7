#include "compiler/support/utf8.h"

#include <cstdint>

namespace llmc {
namespace {

/// Returns whether the character is a line separator, a paragraph separator or a bidirectional
/// control. A name with such characters could disguise a message.
bool rearranges_text(std::uint32_t c) {
  return (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

}  // namespace

std::size_t printable_utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  std::size_t length = 0;
  std::uint32_t code = 0, smallest = 0;
  if (first >= 0xc2 && first <= 0xdf) {
    length = 2, code = first & 0x1f, smallest = 0x80;
  } else if (first >= 0xe0 && first <= 0xef) {
    length = 3, code = first & 0x0f, smallest = 0x800;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4, code = first & 0x07, smallest = 0x10000;
  } else {
    return 0;
  }
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < smallest || code > 0x10ffff || surrogate || code < 0xa0 || rearranges_text(code))
    return 0;
  return length;
}

}  // namespace llmc

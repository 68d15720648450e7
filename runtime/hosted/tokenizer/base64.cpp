#include "runtime/hosted/tokenizer/base64.h"

#include <cstdint>

namespace llmc::hosted {
namespace {

int digit_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return -1;
}

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const std::size_t digits = i + 4 == text.size() ? 4 - padding : 4;
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const int digit = j < digits ? digit_of(text[i + j]) : 0;
      if (digit < 0) return std::nullopt;
      group = group << 6 | static_cast<std::uint32_t>(digit);
    }
    for (std::size_t j = 0; j + 1 < digits; ++j)
      bytes += static_cast<char>(group >> (16 - 8 * j) & 0xFF);
    // Unused bits must be zero; otherwise the same token would have two spellings.
    if (digits < 4 && (group & (digits == 3 ? 0xFFu : 0xFFFFu)) != 0) return std::nullopt;
  }
  return bytes;
}

}  // namespace llmc::hosted

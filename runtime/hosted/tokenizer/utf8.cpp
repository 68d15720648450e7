#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {
namespace {

std::size_t length_from_lead(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

/// Returns whether the second byte is in its range, which depends on the first byte (Unicode, table
/// 3-7).
bool second_fits(unsigned char lead, unsigned char second) {
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  return second >= low && second <= high;
}

bool continues(std::string_view text, std::size_t i) {
  const auto byte = static_cast<unsigned char>(text[i]);
  return i == 1 ? second_fits(static_cast<unsigned char>(text[0]), byte) : (byte & 0xC0) == 0x80;
}

}  // namespace

Utf8Char decode_utf8(std::string_view text) {
  if (text.empty()) return {};
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = length_from_lead(lead);
  if (length == 0 || length > text.size()) return {};
  static constexpr unsigned char kLeadBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  std::uint32_t code_point = lead & kLeadBits[length];
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(text, i)) return {};
    code_point = code_point << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  return {code_point, length};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = decode_utf8(text).bytes;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

void append_utf8(std::uint32_t c, std::string& out) {
  const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

bool is_utf8_prefix(std::string_view text) {
  if (text.empty()) return false;
  const std::size_t length = length_from_lead(static_cast<unsigned char>(text[0]));
  if (length <= text.size()) return false;
  for (std::size_t i = 1; i < text.size(); ++i)
    if (!continues(text, i)) return false;
  return true;
}

std::string take_whole_utf8(std::string& pending, bool last) {
  std::string whole;
  std::string_view rest = pending;
  while (!rest.empty()) {
    const std::size_t length = decode_utf8(rest).bytes;
    if (length == 0 && !last && is_utf8_prefix(rest)) break;
    whole += length == 0 ? kReplacement : rest.substr(0, length);
    rest.remove_prefix(length == 0 ? 1 : length);
  }
  pending.erase(0, pending.size() - rest.size());
  return whole;
}

}  // namespace llmc::hosted

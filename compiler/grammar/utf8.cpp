#include "compiler/grammar/utf8.h"

#include <algorithm>

namespace llmc::grammar {
namespace {

/// The last code point of each length of UTF-8.
constexpr std::uint32_t kLastOfLength[] = {0x7F, 0x7FF, 0xFFFF, kMaxCodePoint};

/// Splits first .. last, all of one length in UTF-8, where their bytes stop being independent:
/// every byte behind the first that differs must run over all of 80 .. BF.
void split(std::uint32_t first, std::uint32_t last, std::vector<Utf8Sequence>& out) {
  for (unsigned shift = 6; shift <= 18 && last >= 0x80; shift += 6) {
    const std::uint32_t low_bits = (std::uint32_t{1} << shift) - 1;
    if ((first & ~low_bits) == (last & ~low_bits)) break;  // they differ further down only
    if ((first & low_bits) != 0) {
      split(first, first | low_bits, out);
      split((first | low_bits) + 1, last, out);
      return;
    }
    if ((last & low_bits) != low_bits) {
      split(first, (last & ~low_bits) - 1, out);
      split(last & ~low_bits, last, out);
      return;
    }
  }
  std::string low, high;
  append_utf8(low, first);
  append_utf8(high, last);
  Utf8Sequence sequence;
  sequence.length = static_cast<std::uint8_t>(low.size());
  for (std::size_t i = 0; i < low.size(); ++i)
    sequence.bytes[i] = {static_cast<std::uint8_t>(low[i]), static_cast<std::uint8_t>(high[i])};
  out.push_back(sequence);
}

}  // namespace

std::vector<Utf8Sequence> utf8_sequences(const CodePointSet& set) {
  std::vector<Utf8Sequence> sequences;
  for (const CodePointRange& range : set) {
    std::uint32_t first = range.first;
    for (const std::uint32_t last_of_length : kLastOfLength) {
      if (first > last_of_length || first > range.last) continue;
      const std::uint32_t last = std::min(range.last, last_of_length);
      split(first, last, sequences);
      first = last + 1;
    }
  }
  return sequences;
}

void append_utf8(std::string& out, std::uint32_t code_point) {
  const auto add = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code_point < 0x80) return add(code_point);
  if (code_point < 0x800) {
    add(0xC0 | code_point >> 6);
  } else {
    if (code_point < 0x10000) {
      add(0xE0 | code_point >> 12);
    } else {
      add(0xF0 | code_point >> 18);
      add(0x80 | (code_point >> 12 & 0x3F));
    }
    add(0x80 | (code_point >> 6 & 0x3F));
  }
  add(0x80 | (code_point & 0x3F));
}

std::optional<Utf8Char> decode_utf8(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto lead = static_cast<std::uint8_t>(text[0]);
  const std::size_t bytes = lead < 0x80   ? 1
                            : lead < 0xC2 ? 0
                            : lead < 0xE0 ? 2
                            : lead < 0xF0 ? 3
                            : lead < 0xF5 ? 4
                                          : 0;
  if (bytes == 0 || bytes > text.size()) return std::nullopt;
  std::uint32_t code_point = bytes == 1 ? lead : lead & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    if ((byte & 0xC0) != 0x80) return std::nullopt;
    code_point = code_point << 6 | (byte & 0x3Fu);
  }
  // Overlong forms, surrogates and values beyond Unicode are written differently than they read.
  std::string again;
  append_utf8(again, code_point);
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (surrogate || code_point > kMaxCodePoint || again != text.substr(0, bytes))
    return std::nullopt;
  return Utf8Char{code_point, bytes};
}

}  // namespace llmc::grammar

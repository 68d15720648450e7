#include "runtime/hosted/grammar/utf8_ranges.h"

#include <algorithm>
#include <string>

#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted::grammar {
namespace {

/// The last code point of each UTF-8 length.
constexpr std::uint32_t kLastOfLength[] = {0x7F, 0x7FF, 0xFFFF, kMaxCodePoint};

/// Appends the characters first .. last, whose UTF-8 lengths are equal, as sequences of independent
/// byte ranges: all bytes after the first byte that differs must have the range 80 .. BF.
void split(std::uint32_t first, std::uint32_t last, std::vector<Utf8Sequence>& out) {
  for (unsigned shift = 6; shift <= 18 && last >= 0x80; shift += 6) {
    const std::uint32_t low_bits = (std::uint32_t{1} << shift) - 1;
    if ((first & ~low_bits) == (last & ~low_bits)) break;  // only lower bits differ
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
  append_utf8(first, low);
  append_utf8(last, high);
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

}  // namespace llmc::hosted::grammar

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/grammar/grammar.h"

namespace llmc::grammar {

struct ByteRange {
  std::uint8_t low = 0, high = 0;  // both included
  bool operator==(const ByteRange&) const = default;
};

/// One to four ranges: a byte of each, in order, is the UTF-8 of a character.
struct Utf8Sequence {
  std::array<ByteRange, 4> bytes;
  std::uint8_t length = 0;
};

/// The UTF-8 of exactly the characters of `set` (normalized), as disjoint sequences.
std::vector<Utf8Sequence> utf8_sequences(const CodePointSet& set);

/// Appends the UTF-8 of a code point that is no surrogate.
void append_utf8(std::string& out, std::uint32_t code_point);

/// The character at the front of `text` and its length in bytes; nullopt when there is none or it
/// is no UTF-8.
struct Utf8Char {
  std::uint32_t code_point = 0;
  std::size_t bytes = 0;
};
std::optional<Utf8Char> decode_utf8(std::string_view text);

}  // namespace llmc::grammar

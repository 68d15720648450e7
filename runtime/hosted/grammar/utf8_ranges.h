#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/hosted/grammar/grammar.h"

namespace llmc::hosted::grammar {

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

}  // namespace llmc::hosted::grammar

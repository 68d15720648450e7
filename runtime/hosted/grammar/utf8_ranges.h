#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/hosted/grammar/grammar.h"

namespace llmc::hosted::grammar {

struct ByteRange {
  std::uint8_t low = 0, high = 0;  // inclusive
  bool operator==(const ByteRange&) const = default;
};

/// Ranges for each of the 1 to 4 bytes of a UTF-8 character. Every combination of bytes in these
/// ranges is a valid character.
struct Utf8Sequence {
  std::array<ByteRange, 4> bytes;
  std::uint8_t length = 0;
};

/// Returns disjoint sequences that together contain exactly the characters of `set`, which must be
/// normalized.
std::vector<Utf8Sequence> utf8_sequences(const CodePointSet& set);

}  // namespace llmc::hosted::grammar

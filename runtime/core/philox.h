#pragma once

#include <stdint.h>

namespace llmc::core {

struct PhiloxBlock {
  uint32_t word[4];
};

/// Returns 128 random bits that depend only on `counter` and `key`: Philox4x32-10 (Salmon, Moraes,
/// Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011). There is no state, so a draw
/// can be repeated after a rewind.
inline PhiloxBlock philox4x32(PhiloxBlock counter, uint64_t key) {
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter.word[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter.word[2];
    counter = {{static_cast<uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<uint32_t>(product1),
                static_cast<uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// Returns random number `stream` for the token at `position`: uniform in [0, 1), with 53 bits.
inline double uniform_draw(uint64_t seed, uint64_t position, uint32_t stream) {
  const PhiloxBlock block = philox4x32(
      {{static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), stream, 0}}, seed);
  const uint64_t bits = (uint64_t{block.word[1]} << 32 | block.word[0]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace llmc::core

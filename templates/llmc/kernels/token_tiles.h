#pragma once

#include "llmc/sizes.h"

/// Iteration over the tokens and activations of products. Must be included after the constants of
/// the SIMD header.
namespace llmc {
inline namespace LLMC_ISA {

/// Distance in bytes between the codes of adjacent tokens if kActivationTokens is 1.
inline constexpr size_t kTokenBytes = kBlock * kActivationBlocks;

/// Returns the address of a token's codes of block `b` + 1. `a` is the address for block `b`, and
/// `block_stride` the distance from kActivationBlocks adjacent blocks to the next ones
/// (kernels/quantize.h).
LLMC_INLINE const int8_t* next_activations(const int8_t* a, size_t b, size_t block_stride) {
  return a + (kActivationBlocks == 2 && b % 2 == 0
                  ? kBlock
                  : block_stride - (kActivationBlocks - 1) * kBlock);
}

/// Adds the products for four consecutive elements along K. `weights` contain four codes of each
/// row. The activations of kTokens tokens begin at `a` and are kTokenBytes apart.
template <class V, size_t kTokens, class Int>
LLMC_INLINE void add_dots(Int (&sum)[kTokens][V::kTileVectors],
                          const Int (&weights)[V::kTileVectors], const int8_t* a) {
#pragma clang loop unroll(full)
  for (size_t t = 0; t < kTokens; ++t) {
    const Int four = V::splat4(a + t * kTokenBytes);
#pragma clang loop unroll(full)
    for (size_t v = 0; v < V::kTileVectors; ++v) {
      sum[t][v] = V::dot_bytes(sum[t][v], weights[v], four);
    }
  }
}

/// Calls f.operator()<size>(first). `size` must be in [kLeast, kSize].
template <size_t kSize, size_t kLeast, class F>
LLMC_INLINE void call_tile(size_t size, size_t first, F f) {
  if (size == kSize) {
    f.template operator()<kSize>(first);
  } else if constexpr (kSize > kLeast) {
    call_tile<kSize - 1, kLeast>(size, first, f);
  } else {
    __builtin_trap();
  }
}

/// Divides `count` tokens into tiles of at most kTile tokens, and calls f.operator()<size>(first)
/// for each tile. If activations are stored in groups of tokens, each tile is a group. Otherwise,
/// tiles have about the same size, because small tiles have too few independent sums to use the
/// multipliers fully. kLeast must not be larger than the smallest tile; it limits the number of
/// instances of `f`.
template <size_t kTile, size_t kLeast, class F>
LLMC_INLINE void each_tile(size_t count, F f) {
  const size_t tiles = ceil_div(count, kTile);
  const size_t least = kActivationTokens > 1 ? kTile : count / tiles;
  const size_t larger = kActivationTokens > 1 ? 0 : count - least * tiles;
  size_t first = 0;
  for (size_t i = 0; i < tiles; ++i) {
    const size_t size = i < larger ? least + 1 : least, left = count - first;
    call_tile<kTile, kLeast>(size < left ? size : left, first, f);
    first += size;
  }
}

/// Returns the size of the smallest tile that each_tile() makes for any number of tokens from
/// `count` to kTokenStrip, if activations are not stored in groups.
constexpr size_t min_tile(size_t tile, size_t count) {
  size_t least = tile;
  for (; count <= kTokenStrip; ++count) {
    const size_t size = count / ceil_div(count, tile);
    least = size < least ? size : least;
  }
  return least;
}

/// Calls each_tile() for `count` tokens, 2 to kFewLimit.
template <size_t kTile, class F>
LLMC_INLINE void each_few_tile(size_t count, F f) {
  each_tile<kTile, min_tile(kTile, 2)>(count, f);
}
/// Calls each_tile() for the tokens of a strip. `count` is more than kFewLimit.
template <size_t kTile, class F>
LLMC_INLINE void each_strip_tile(size_t count, F f) {
  each_tile<kTile, min_tile(kTile, kFewLimit + 1)>(count, f);
}

}  // namespace LLMC_ISA
}  // namespace llmc

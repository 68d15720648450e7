#pragma once

#include "llmc/kernels/kv_tile.h"

/// Software prefetch for attention. The 64 keys or values of a head in a tile are contiguous pieces
/// of a few KB, which are in different pages if the cache is divided into blocks. They are too
/// short for the hardware prefetcher.
namespace llmc {
inline namespace LLMC_ISA {

/// Whether a tile describes the next tile, which can then be prefetched. A WidenedTile does not:
/// the loops over it have so much arithmetic that prefetching gained nothing.
template <class Tile>
concept HasNextTile = requires(const Tile& tile) { tile.next; };
template <class Tile>
inline constexpr bool kPrefetchesNext = kPrefetches && HasNextTile<Tile>;

/// Calls step(i) for 0 <= i < count, where count is a multiple of 8. Each step reads eight numbers
/// of each of kGroups streams for kRows rows. Also prefetches the kGroups streams at `ahead`. With
/// few rows, an inner loop for each cache line is faster. With more rows, clang 19 would keep the
/// sums of that loop in memory, so each step prefetches an equal share of the lines; if that is
/// less than one line, some lines are prefetched repeatedly.
template <class Numbers, size_t kRows, size_t kGroups, class Step>
LLMC_INLINE void prefetching_steps(size_t count, const unsigned char* const* ahead, Step step) {
  constexpr size_t kLine = kAlignment / (kPanelRows * Numbers::kBytes);  // steps per cache line
  if constexpr (kRows * kPanelRows <= 4 * kRegisterFloats) {
    for (size_t i = 0; i < count; i += kLine) {
#pragma clang loop unroll(full)
      for (size_t g = 0; g < kGroups; ++g) prefetch_tile(ahead[g] + i / kLine * kAlignment);
      if constexpr (kLine == 2) {  // clang 19 keeps the sums of such a loop in memory, too
        step(i);
        step(i + 1);
      } else {
#pragma clang loop unroll(disable)
        for (size_t j = 0; j < kLine; ++j) step(i + j);
      }
    }
  } else {
    for (size_t i = 0; i < count; ++i) {
      const size_t offset = i / kLine * kAlignment, j = i % kLine;
      if constexpr (kGroups < kLine) {
        prefetch_tile(ahead[j * kGroups / kLine] + offset);
      } else {
#pragma clang loop unroll(full)
        for (size_t g = 0; g < kGroups; g += kLine) {
          if (g + kLine <= kGroups || g + j < kGroups) prefetch_tile(ahead[g + j] + offset);
        }
      }
      step(i);
    }
  }
}

/// Prefetches the keys of columns [begin, end) of the next tile, in groups of 8 from `begin` on.
template <class Tile>
LLMC_INLINE void prefetch_keys(const Tile& tile, size_t begin, size_t end) {
  constexpr size_t kBytes = Tile::Shape::kPadded * kPanelRows * Tile::Keys::kBytes +
                            (Tile::kScaledKeys ? 2 * kPanelRows * sizeof(float) : 0);
  for (size_t c = begin; c < end; c += kPanelRows) {
    const unsigned char* keys = tile.next_keys(c);
    for (size_t i = 0; i < kBytes; i += kAlignment) prefetch_tile(keys + i);
  }
}
/// Prefetches the values of columns [begin, end) of the next tile, in groups of 8 from `begin` on.
template <class Tile>
LLMC_INLINE void prefetch_values(const Tile& tile, size_t begin, size_t end) {
  constexpr size_t kBytes = kPanelRows * kPanelRows * Tile::Values::kBytes;
  for (size_t c = begin; c < end; c += kPanelRows) {
    for (size_t g = 0; g < Tile::Shape::kPadded / kPanelRows; ++g) {
      const unsigned char* values = tile.next_values(g, c);
      for (size_t i = 0; i < kBytes; i += kAlignment) prefetch_tile(values + i);
    }
    if constexpr (Tile::kScaledValues) prefetch_tile(tile.next_value_scales(c));
  }
}
/// Prefetches the columns of the next tile that the loops over `keys` keys and `values` values of
/// this tile do not prefetch.
template <class Tile>
LLMC_INLINE void prefetch_rest(const Tile& tile, size_t keys, size_t values) {
  const NextTile& next = tile.next;
  prefetch_keys(tile, next.in_steps ? keys : next.begin, next.count);
  prefetch_values(tile, next.in_steps ? values / kPanelRows * kPanelRows : next.begin, next.count);
}

}  // namespace LLMC_ISA
}  // namespace llmc

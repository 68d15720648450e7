#include <gtest/gtest.h>

#include <cstddef>

#include "harness.h"
#include "llmc/kernels.h"

namespace llmc::test {
namespace {

/// Checks that the tiles of `first` to kTokenStrip tokens follow each other, end with the last
/// token and have sizes from kLeast to kTile.
template <std::size_t kTile, std::size_t kLeast>
void expect_tiles(std::size_t first) {
  for (std::size_t count = first; count <= kTokenStrip; ++count) {
    std::size_t next = 0, tiles = 0;
    each_tile<kTile, kLeast>(count, [&]<std::size_t kTokens>(std::size_t at) {
      static_assert(kTokens >= kLeast && kTokens <= kTile);
      EXPECT_EQ(at, next) << kTile << ' ' << count;
      next += kTokens;
      ++tiles;
    });
    EXPECT_EQ(next, count) << kTile;
    EXPECT_EQ(tiles, ceil_div(count, kTile)) << count;
  }
}

TEST(TokenTiles, CoverEachTokenOnce) {
  if (kActivationTokens > 1) {
    expect_tiles<8, 1>(1);  // groups
    return;
  }
  expect_tiles<3, min_tile(3, 2)>(2);
  expect_tiles<6, min_tile(6, 2)>(2);
  expect_tiles<8, min_tile(8, 2)>(2);
  expect_tiles<4, min_tile(4, 5)>(5);
  expect_tiles<6, min_tile(6, 17)>(17);
  expect_tiles<12, min_tile(12, 17)>(17);
  expect_tiles<14, 1>(1);
}

TEST(TokenTiles, SmallestTileIsKnown) {
  EXPECT_EQ(min_tile(6, 2), 2u);    // of two tokens
  EXPECT_EQ(min_tile(6, 17), 4u);   // 19 tokens: 5, 5, 5, 4
  EXPECT_EQ(min_tile(12, 17), 8u);  // 17 tokens: 9, 8
}

}  // namespace
}  // namespace llmc::test

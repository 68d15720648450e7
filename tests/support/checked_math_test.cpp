#include "compiler/support/checked_math.h"

#include <gtest/gtest.h>

#include <vector>

namespace llmc {
namespace {

TEST(CheckedMath, FitsOrNot) {
  EXPECT_EQ(checked_add<std::int64_t>(1, 2), 3);
  EXPECT_EQ(checked_add(INT64_MAX, std::int64_t{1}), std::nullopt);
  EXPECT_EQ(checked_sub(INT64_MIN, std::int64_t{1}), std::nullopt);
  EXPECT_EQ(checked_sub<std::uint64_t>(1, 2), std::nullopt);
  EXPECT_EQ(checked_mul<std::uint64_t>(1u << 31, 1u << 31), 1ull << 62);
  EXPECT_EQ(checked_mul<std::uint64_t>(1ull << 32, 1ull << 32), std::nullopt);
  EXPECT_EQ(checked_mul(INT64_MIN, std::int64_t{-1}), std::nullopt);
}

TEST(CheckedMath, RoundsUp) {
  EXPECT_EQ(checked_round_up<std::uint64_t>(0, 8), 0u);
  EXPECT_EQ(checked_round_up<std::uint64_t>(9, 8), 16u);
  EXPECT_EQ(checked_round_up<std::uint64_t>(UINT64_MAX, 8), std::nullopt);
}

TEST(CheckedMath, Product) {
  const auto product = [](std::vector<std::int64_t> dims) { return checked_product(dims); };
  EXPECT_EQ(product({}), 1);
  EXPECT_EQ(product({2, 3, 4}), 24);
  EXPECT_EQ(product({INT64_MAX, INT64_MAX, 0}), 0);  // empty, whatever the other sizes are
  EXPECT_EQ(product({INT64_MAX, 2}), std::nullopt);
  EXPECT_EQ(product({-1, 0}), std::nullopt);
  EXPECT_EQ(product({-1, -1}), std::nullopt);
}

}  // namespace
}  // namespace llmc

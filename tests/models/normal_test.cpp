#include "models/random/normal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/support/half.h"

namespace llmc::models {
namespace {

TEST(NormalQuantiles, AreThoseOfTheDistribution) {
  for (std::uint32_t i = 0; i < kQuantiles; i += 97) {
    const double p = (i + 0.5) / static_cast<double>(kQuantiles);
    const double back = std::erfc(-normal_quantile(i) / std::sqrt(2.0)) / 2;
    EXPECT_NEAR(back / p, 1, 1e-7) << i;
    EXPECT_EQ(normal_quantile(static_cast<std::uint32_t>(kQuantiles) - 1 - i), -normal_quantile(i));
  }
  for (std::uint32_t i = 1; i < kQuantiles; ++i)
    ASSERT_GT(normal_quantile(i), normal_quantile(i - 1)) << i;
}

TEST(NormalQuantiles, AreScaledAndRounded) {
  const auto values = f16_quantiles(1, 0.5);
  EXPECT_EQ(values[1000], f32_to_f16(static_cast<float>(1 + 0.5 * normal_quantile(1000))));
  const auto coarse = f16_quantiles(0, 1, true), table = bf16_quantiles(0, 1);
  for (std::size_t i = 0; i < kQuantiles; ++i)
    ASSERT_EQ(coarse[i], f32_to_f16(bf16_to_f32(table[i]))) << i;
}

TEST(NormalStream, IsTheSameInAnyPieces) {
  const auto values = f16_quantiles(0, 1);
  const NormalStream stream(7, 3);
  std::vector<std::uint16_t> whole(103);
  stream.fill(5, values, whole);
  for (std::size_t size : {1, 2, 3, 4, 7, 50}) {
    std::vector<std::uint16_t> pieces(whole.size());
    for (std::size_t at = 0; at < pieces.size(); at += size)
      stream.fill(5 + at, values, std::span(pieces).subspan(at, std::min(size, 103 - at)));
    EXPECT_EQ(pieces, whole) << size;
  }
}

// Mean, deviation, tails, and nothing in common between neighbours, streams and seeds.
TEST(NormalStream, LooksNormalAndIndependent) {
  constexpr std::size_t kCount = 200000;
  std::vector<double> x(kCount), y(kCount), z(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    x[i] = normal_quantile(NormalStream(1, 1).quantile(i));
    y[i] = normal_quantile(NormalStream(1, 2).quantile(i));
    z[i] = normal_quantile(NormalStream(2, 1).quantile(i));
  }
  const auto product = [&](const std::vector<double>& a, const std::vector<double>& b,
                           std::size_t lag) {
    double sum = 0;
    for (std::size_t i = 0; i + lag < kCount; ++i) sum += a[i] * b[i + lag];
    return sum / static_cast<double>(kCount);
  };
  const double bound = 5 / std::sqrt(static_cast<double>(kCount));
  EXPECT_NEAR(std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(kCount), 0, bound);
  EXPECT_NEAR(product(x, x, 0), 1, 2 * bound);
  for (std::size_t lag : {1, 2, 3, 4, 64, 1024}) EXPECT_NEAR(product(x, x, lag), 0, bound) << lag;
  EXPECT_NEAR(product(x, y, 0), 0, bound);
  EXPECT_NEAR(product(x, z, 0), 0, bound);
  const auto beyond = [&](double limit) {
    return std::count_if(x.begin(), x.end(), [&](double v) { return std::abs(v) > limit; });
  };
  EXPECT_NEAR(static_cast<double>(beyond(2)), 0.0455 * kCount, 500);
  EXPECT_NEAR(static_cast<double>(beyond(3)), 0.0027 * kCount, 120);
}

}  // namespace
}  // namespace llmc::models

#include "compiler/quant/q8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "llmc/half.h"
#include "tests/quant/decode.h"
#include "tests/quant/error_stats.h"
#include "tests/quant/rows.h"

namespace llmc::quant {
namespace {

std::vector<float> round_trip(const std::vector<float>& weights, ScaledRow& row) {
  encode_q8_row(weights, row);
  std::vector<float> decoded(weights.size());
  decode_scaled_row(row, decoded);
  return decoded;
}

TEST(Q8, EveryWeightIsWithinHalfAStep) {
  for (const std::size_t length : {1u, 31u, 32u, 33u, 288u, 1000u}) {
    const std::vector<float> weights = heavy_tailed(length, static_cast<unsigned>(length));
    ScaledRow row;
    const std::vector<float> decoded = round_trip(weights, row);
    ASSERT_EQ(row.scales.size(), (length + 31) / 32);
    for (std::size_t i = 0; i < length; ++i) {
      const float step = f16_to_f32(row.scales[i / 32]);
      // The f16 scale may fall short of largest / 127 by half a unit in its last place.
      EXPECT_LE(std::fabs(decoded[i] - weights[i]), step * 0.57f) << i;
    }
  }
}

TEST(Q8, RelativeErrorOfGaussianRows) {
  const std::vector<float> weights = gaussian(4096, 3);
  ScaledRow row;
  ErrorStats stats;
  stats.add(weights, round_trip(weights, row));
  EXPECT_LT(stats.relative_rms(), 0.006);
  EXPECT_GT(stats.relative_rms(), 0.003);
}

TEST(Q8, CodesAreSymmetric) {
  std::vector<float> weights = gaussian(256, 21);
  ScaledRow row, negated;
  encode_q8_row(weights, row);
  for (float& w : weights) w = -w;
  encode_q8_row(weights, negated);
  EXPECT_EQ(row.scales, negated.scales);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    EXPECT_EQ(row.codes[i], -negated.codes[i]);
    EXPECT_GE(row.codes[i], -127);
  }
}

TEST(Q8, ZeroAndTinyBlocks) {
  ScaledRow row;
  EXPECT_EQ(round_trip(std::vector<float>(40, 0.0f), row), std::vector<float>(40, 0.0f));
  // The step would be below the smallest f16: the largest weights must not be clipped away.
  const std::vector<float> tiny(32, 5e-6f);
  for (const float w : round_trip(tiny, row)) EXPECT_NEAR(w, 5e-6f, 6e-8f);
  // Far below it everything becomes zero.
  for (const float w : round_trip(std::vector<float>(32, 1e-12f), row)) EXPECT_EQ(w, 0.0f);
}

TEST(Q8, LargestWeightFits) {
  ScaledRow row;
  const std::vector<float> weights{kLargestQ8Weight, -kLargestQ8Weight, 1.0f};
  const std::vector<float> decoded = round_trip(weights, row);
  EXPECT_EQ(decoded[0], kLargestQ8Weight);
  EXPECT_EQ(decoded[1], -kLargestQ8Weight);
}

}  // namespace
}  // namespace llmc::quant

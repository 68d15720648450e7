#include "compiler/quant/symmetric.h"

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

std::vector<float> decoded(const ScaledRow& row) {
  std::vector<float> weights(row.codes.size());
  decode_scaled_row(row, weights);
  return weights;
}
ScaledRow encoded(const std::vector<float>& weights) {
  ScaledRow row;
  encode_symmetric_row(kSixBits, weights, row);
  return row;
}
double error_of_six_bits(const std::vector<float>& weights) {
  ErrorStats stats;
  stats.add(weights, decoded(encoded(weights)));
  return stats.relative_rms();
}

TEST(Q6, IsBetterThanTheLargestWeightOver31) {
  for (const auto& weights : {gaussian(4096, 1), heavy_tailed(4096, 2)}) {
    double squares = 0, errors = 0;
    for (std::size_t begin = 0; begin < weights.size(); begin += 32) {
      float largest = 0;
      for (std::size_t k = begin; k < begin + 32; ++k)
        largest = std::max(largest, std::fabs(weights[k]));
      const float scale = largest / 31;
      for (std::size_t k = begin; k < begin + 32; ++k) {
        const double error = std::round(weights[k] / scale) * scale - weights[k];
        squares += static_cast<double>(weights[k]) * weights[k];
        errors += error * error;
      }
    }
    EXPECT_LT(error_of_six_bits(weights), 0.95 * std::sqrt(errors / squares));
  }
}

TEST(Q6, UsesBothEnds) {
  // One value at each end of the range: whichever is larger is -32.
  std::vector<float> weights(32, 0.0f);
  weights[3] = 64;
  weights[4] = -62;
  const ScaledRow row = encoded(weights);
  EXPECT_EQ(row.codes[3], -32);
  EXPECT_EQ(row.codes[4], 31);
  EXPECT_EQ(f16_to_f32(row.scales[0]), -2.0f);
}

TEST(Q6, BlocksOfOneValueAreExact) {
  for (const float value : {0.0f, 1.0f, -1.0f, 0.375f, 65504.0f}) {
    const std::vector<float> weights(40, value);
    EXPECT_EQ(decoded(encoded(weights)), weights) << value;
  }
}

TEST(Q6, TheEndsOfTheRange) {
  const std::vector<float> large(33, largest_symmetric_weight(kSixBits));
  for (const float x : decoded(encoded(large)))
    EXPECT_NEAR(x, largest_symmetric_weight(kSixBits), 0.001 * x);
  // Less than 32 of the smallest f16's steps: the nearest there is.
  for (const float tiny : {1e-38f, 1e-30f, 1e-8f, 1e-7f, 5e-7f, -5e-7f, 8.9e-7f, 1e-6f}) {
    std::vector<float> weights(32, tiny);
    weights[5] = -tiny / 2;
    const std::vector<float> got = decoded(encoded(weights));
    for (std::size_t k = 0; k < 32; ++k)
      EXPECT_LE(std::fabs(got[k] - weights[k]), 0x1p-25f) << tiny << ' ' << k;
  }
}

TEST(Q6, IsTheSameOnEveryHost) {
  const ScaledRow row = encoded(heavy_tailed(1000, 4));
  unsigned hash = 2166136261u;
  const auto mix = [&](unsigned value) { hash = (hash ^ value) * 16777619u; };
  for (const std::int8_t code : row.codes) mix(static_cast<std::uint8_t>(code));
  for (const std::uint16_t scale : row.scales) mix(scale);
  EXPECT_EQ(hash, 2143974004u);
}

}  // namespace
}  // namespace llmc::quant

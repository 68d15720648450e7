#include "compiler/quant/q4.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "llmc/half.h"
#include "tests/quant/decode.h"
#include "tests/quant/error_stats.h"
#include "tests/quant/rows.h"

namespace llmc::quant {
namespace {

Q4Row encode(const std::vector<float>& weights, const std::vector<float>& importance = {}) {
  Q4Row row;
  encode_q4_row(weights, importance, row);
  return row;
}
std::vector<float> decode(const Q4Row& row) {
  std::vector<float> weights(row.codes.size());
  decode_q4_row(row, weights);
  return weights;
}
double relative_error(const std::vector<float>& weights) {
  ErrorStats stats;
  stats.add(weights, decode(encode(weights)));
  return stats.relative_rms();
}

/// The obvious encoder for the same format: range / 15 and the smallest value, then rounded.
double minmax_error(const std::vector<float>& weights) {
  const std::size_t blocks = weights.size() / 32;
  std::vector<float> low(blocks), step(blocks);
  for (std::size_t b = 0; b < blocks; ++b) {
    const auto [min, max] = std::ranges::minmax(std::span(weights).subspan(b * 32, 32));
    low[b] = std::min(min, 0.0f);
    step[b] = (std::max(max, 0.0f) - low[b]) / 15;
  }
  const float scale = bf16_to_f32(f32_to_bf16(*std::ranges::max_element(step) / 15));
  const float min = bf16_to_f32(f32_to_bf16(*std::ranges::min_element(low) / 255));
  std::vector<float> decoded(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const float s = scale * std::clamp(std::round(step[i / 32] / scale), 1.0f, 15.0f);
    const float m = min * std::clamp(std::round(low[i / 32] / min), 0.0f, 255.0f);
    decoded[i] = m + s * std::clamp(std::round((weights[i] - m) / s), 0.0f, 15.0f);
  }
  ErrorStats stats;
  stats.add(weights, decoded);
  return stats.relative_rms();
}

TEST(Q4, FieldsStayInTheirRanges) {
  for (const std::size_t length : {1u, 31u, 32u, 33u, 255u, 256u, 288u, 1000u}) {
    for (const unsigned seed : {1u, 2u, 3u}) {
      const Q4Row row = encode(heavy_tailed(length, seed));
      ASSERT_EQ(row.codes.size(), length);
      ASSERT_EQ(row.scales.size(), (length + 31) / 32);
      ASSERT_EQ(row.minimums.size(), row.scales.size());
      EXPECT_LE(*std::ranges::max_element(row.codes), 15);
      EXPECT_LE(*std::ranges::max_element(row.scales), 15);
      EXPECT_GE(*std::ranges::min_element(row.scales), 1);
    }
  }
}

TEST(Q4, ErrorIsFarBelowThatOfMinMaxOnHeavyTails) {
  double fitted = 0, plain = 0;
  for (unsigned seed = 0; seed < 8; ++seed) {
    const std::vector<float> weights = heavy_tailed(1024, seed);
    fitted += relative_error(weights);
    plain += minmax_error(weights);
    EXPECT_LT(relative_error(weights), minmax_error(weights)) << "seed " << seed;
  }
  EXPECT_LT(fitted, 0.95 * plain);
}

TEST(Q4, GaussianRowsLoseSevenPercent) {
  EXPECT_LT(relative_error(gaussian(8192, 7)), 0.078);
}

TEST(Q4, NoWeightIsFurtherOffThanABlockOfTheCoarsestScale) {
  // Clipping may cost more than half a step, never more than the range.
  const std::vector<float> weights = gaussian(2048, 11);
  const Q4Row row = encode(weights);
  const std::vector<float> decoded = decode(row);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const float step = bf16_to_f32(row.scale) * row.scales[i / 32];
    EXPECT_LT(std::fabs(decoded[i] - weights[i]), 3 * step) << i;
  }
}

TEST(Q4, SameBitsEveryTimeAndForEveryReuseOfMemory) {
  const std::vector<float> weights = heavy_tailed(600, 5);
  const Q4Row once = encode(weights);
  Q4Row again;
  encode_q4_row(heavy_tailed(4096, 6), {}, again);
  encode_q4_row(weights, {}, again);
  EXPECT_EQ(once.scale, again.scale);
  EXPECT_EQ(once.min, again.min);
  EXPECT_EQ(once.codes, again.codes);
  EXPECT_EQ(once.scales, again.scales);
  EXPECT_EQ(once.minimums, again.minimums);
}

TEST(Q4, ScalingByAPowerOfTwoScalesOnlyTheRow) {
  const std::vector<float> weights = gaussian(320, 9);
  const Q4Row base = encode(weights);
  for (const int exponent : {-90, -20, 20, 100}) {
    std::vector<float> scaled = weights;
    for (float& w : scaled) w = std::ldexp(w, exponent);
    const Q4Row row = encode(scaled);
    EXPECT_EQ(row.codes, base.codes) << exponent;
    EXPECT_EQ(row.scales, base.scales) << exponent;
    EXPECT_EQ(row.minimums, base.minimums) << exponent;
    EXPECT_EQ(bf16_to_f32(row.scale), std::ldexp(bf16_to_f32(base.scale), exponent));
  }
}

TEST(Q4, ZerosStayZeros) {
  const Q4Row row = encode(std::vector<float>(100, 0.0f));
  EXPECT_EQ(row.scale, 0);
  EXPECT_EQ(row.min, 0);
  EXPECT_EQ(decode(row), std::vector<float>(100, 0.0f));

  std::vector<float> weights = gaussian(96, 3);
  std::fill(weights.begin() + 32, weights.begin() + 64, 0.0f);
  const std::vector<float> decoded = decode(encode(weights));
  for (std::size_t i = 32; i < 64; ++i) EXPECT_EQ(decoded[i], 0.0f) << i;
}

TEST(Q4, RowsOfOneValue) {
  for (const float value : {1.0f, -1.0f, 0.3f, -1234.5f, 1e-20f, 1e30f, -kLargestQ4Weight}) {
    for (const float decoded : decode(encode(std::vector<float>(64, value))))
      EXPECT_NEAR(decoded, value, std::fabs(value) * 0.005f) << value;
  }
}

TEST(Q4, OneValuePerBlock) {
  std::vector<float> weights(128);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = i / 32 % 2 ? 0.5f : -0.25f;
  const std::vector<float> decoded = decode(encode(weights));
  for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(decoded[i], weights[i], 0.02f) << i;
}

TEST(Q4, BlocksOnOneSideOfZero) {
  for (const float side : {-1.0f, 1.0f}) {
    std::vector<float> weights = gaussian(256, 13);
    for (float& w : weights) w = side * (5.0f + 0.1f * w);
    // A free min fits a range far from zero as well as one around it.
    ErrorStats stats;
    stats.add(weights, decode(encode(weights)));
    EXPECT_LT(stats.relative_rms(), 0.005) << side;
  }
}

TEST(Q4, OutlierInABlockCostsOnlyItsBlock) {
  std::vector<float> weights = gaussian(256, 17);
  weights[40] = 60;
  const std::vector<float> decoded = decode(encode(weights));
  EXPECT_NEAR(decoded[40], 60, 3);
  ErrorStats rest;
  rest.add(std::span(weights).subspan(64), std::span(decoded).subspan(64));
  EXPECT_LT(rest.relative_rms(), 0.2);
}

TEST(Q4, ExtremeMagnitudesStayFinite) {
  std::vector<float> weights(64);
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = (i % 2 ? 1.0f : -1.0f) * (i % 3 ? kLargestQ4Weight : 1e-38f);
  for (const float w : decode(encode(weights))) EXPECT_TRUE(std::isfinite(w));
  const std::vector<float> tiny(40, 1e-44f);  // subnormal
  for (const float w : decode(encode(tiny))) EXPECT_LE(std::fabs(w), 1e-38f);
}

TEST(Q4, ImportanceMovesTheErrorElsewhere) {
  const std::vector<float> weights = gaussian(1024, 19);
  std::vector<float> importance(weights.size(), 1.0f);
  for (std::size_t i = 0; i < weights.size(); i += 4) importance[i] = 50;
  const auto important_error = [&](const std::vector<float>& decoded) {
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); i += 4)
      sum += std::pow(static_cast<double>(decoded[i] - weights[i]), 2);
    return sum;
  };
  EXPECT_LT(important_error(decode(encode(weights, importance))),
            0.8 * important_error(decode(encode(weights))));
  const std::vector<float> none(weights.size(), 0.0f);
  for (const float w : decode(encode(weights, none))) EXPECT_TRUE(std::isfinite(w));
}

TEST(Q4, KnownBits) {
  // Guards against a change of rounding or of the order of operations on some host: weights are
  // exact in binary, so nothing but the encoder decides these.
  std::vector<float> weights(96);
  unsigned state = 12345;
  for (float& w : weights) {
    state = state * 1664525u + 1013904223u;
    w = static_cast<float>(static_cast<int>(state >> 16) - 32768) / 32768.0f;
  }
  const Q4Row row = encode(weights);
  unsigned hash = 2166136261u;
  const auto mix = [&](unsigned value) { hash = (hash ^ value) * 16777619u; };
  mix(row.scale);
  mix(row.min);
  for (const auto& field : {row.codes, row.scales, row.minimums})
    for (const std::uint8_t value : field) mix(value);
  EXPECT_EQ(hash, 1122773344u);
}

}  // namespace
}  // namespace llmc::quant

#include "compiler/support/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace llmc {
namespace {

/// Returns the value of a binary16 by its definition, in double.
double f16_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Half, EveryF16IsExactAndComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = f16_to_f32(half);
    const double expected = f16_value(half);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), expected) << bits;
    ASSERT_EQ(std::signbit(value), std::signbit(expected));
    ASSERT_EQ(f32_to_f16(value), half);
  }
}

/// Between neighbours: rounds down below the midpoint, up above it, and to even at the midpoint.
TEST(Half, F16RoundsToNearestEven) {
  for (std::uint16_t half = 0; half < 0x7c00; ++half) {
    const double low = f16_value(half);
    const double high = half == 0x7bff ? 65536 : f16_value(static_cast<std::uint16_t>(half + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    const auto even = static_cast<std::uint16_t>(half % 2 == 0 ? half : half + 1);
    const auto above = static_cast<std::uint16_t>(half + 1);
    ASSERT_EQ(f32_to_f16(middle), even) << half;
    ASSERT_EQ(f32_to_f16(std::nextafterf(middle, 0)), half);
    ASSERT_EQ(f32_to_f16(std::nextafterf(middle, INFINITY)), above);
    ASSERT_EQ(f32_to_f16(-middle), even | 0x8000);
  }
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::infinity()), 0xfc00);
}

TEST(Half, Bf16RoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const auto brain = static_cast<std::uint16_t>(bits);
    const float value = bf16_to_f32(brain);
    ASSERT_EQ(f32_to_bf16(value), brain);
    const float middle = std::bit_cast<float>(bits << 16 | 0x8000u);
    ASSERT_EQ(f32_to_bf16(middle), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(f32_to_bf16(std::nextafterf(middle, 0)), bits);
    ASSERT_EQ(f32_to_bf16(std::nextafterf(middle, INFINITY)), bits + 1);
  }
  EXPECT_EQ(f32_to_bf16(INFINITY), 0x7f80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(NAN))));
  // If the high bits of the payload are all zero, the NaN must not become infinity.
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace llmc

#include "llmc/half.h"

#include <gmock/gmock.h>

#include <cmath>

#include "harness.h"

namespace llmc::test {
namespace {

/// The value of f16 bits by its definition.
double f16_value(std::uint16_t h) {
  const int exponent = (h >> 10) & 31, fraction = h & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (h & 0x8000) != 0 ? -magnitude : magnitude;
}

bool is_nan_f16(std::uint32_t h) {
  return (h & 0x7c00) == 0x7c00 && (h & 0x3ff) != 0;
}

TEST(HalfTest, EveryF16ConvertsExactly) {
  for (std::uint32_t h = 0; h < 65536; ++h) {
    const float value = f16_to_f32(static_cast<std::uint16_t>(h));
    if (is_nan_f16(h)) {
      EXPECT_TRUE(std::isnan(value)) << h;
    } else if ((h & 0x7fff) == 0x7c00) {
      EXPECT_EQ(value, h == 0x7c00 ? INFINITY : -INFINITY);
    } else {
      EXPECT_EQ(value, f16_value(static_cast<std::uint16_t>(h))) << h;
      EXPECT_EQ(std::signbit(value), (h & 0x8000) != 0) << h;
    }
  }
}

TEST(HalfTest, VectorAndScalarAgreeOnAllBits) {
  for (std::uint32_t h = 0; h < 65536; h += 8) {
    std::uint8_t bytes[16];
    for (std::uint32_t i = 0; i < 8; ++i) {
      store_u16(bytes + 2 * i, static_cast<std::uint16_t>(h + i));
    }
    float lanes[8];
    store(lanes, load_f16(bytes));
    for (std::uint32_t i = 0; i < 8; ++i) {
      EXPECT_EQ(bits_of(lanes[i]), bits_of(f16_to_f32(static_cast<std::uint16_t>(h + i))));
    }
  }
}

TEST(HalfTest, VectorAndScalarRoundTheSame) {
  // Half-precision values, midpoints of two of them, values next to midpoints, and other floats.
  Random random(5);
  const auto check = [](const float(&x)[8]) {
    std::uint8_t bytes[16];
    store_f16(bytes, load(x));
    for (std::size_t i = 0; i < 8; ++i) {
      const std::uint16_t got = load_u16(bytes + 2 * i), want = f32_to_f16(x[i]);
      if (std::isnan(x[i])) {
        EXPECT_TRUE(is_nan_f16(got)) << bits_of(x[i]);
      } else {
        EXPECT_EQ(got, want) << std::hexfloat << x[i];
      }
    }
  };
  for (std::uint32_t h = 0; h < 65536; ++h) {
    const float low = f16_to_f32(static_cast<std::uint16_t>(h));
    const float middle = bits_float(bits_of(low) + 0x1000);
    const auto any = [&] { return bits_float(static_cast<std::uint32_t>(random.next())); };
    check({low, middle, std::nextafterf(middle, 0), std::nextafterf(middle, INFINITY), any(),
           std::ldexp(any(), -140), any() * 0x1p-20f, std::nextafterf(middle, -INFINITY)});
    if (testing::Test::HasFailure()) break;
  }
}

TEST(HalfTest, EveryF16SurvivesTheRoundTrip) {
  for (std::uint32_t h = 0; h < 65536; ++h) {
    const std::uint16_t back = f32_to_f16(f16_to_f32(static_cast<std::uint16_t>(h)));
    EXPECT_EQ(back, is_nan_f16(h) ? (h | 0x200) : h);
  }
}

TEST(HalfTest, RoundsToNearestEven) {
  // Around each midpoint of neighbouring halves: the midpoint goes to the even one.
  for (std::uint32_t h = 0; h < 0x7bff; ++h) {
    const double low = f16_value(static_cast<std::uint16_t>(h));
    const double high = f16_value(static_cast<std::uint16_t>(h + 1));
    const float middle = static_cast<float>((low + high) / 2);  // exact: 12 bits
    EXPECT_EQ(f32_to_f16(middle), (h & 1) != 0 ? h + 1 : h) << h;
    EXPECT_EQ(f32_to_f16(std::nextafterf(middle, 0)), h);
    EXPECT_EQ(f32_to_f16(std::nextafterf(middle, INFINITY)), h + 1);
    EXPECT_EQ(f32_to_f16(-middle), 0x8000u | ((h & 1) != 0 ? h + 1 : h));
  }
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(f32_to_f16(INFINITY), 0x7c00);
}

TEST(HalfTest, Bf16RoundsToNearestEven) {
  Random random(1);
  for (int i = 0; i < 1000000; ++i) {
    const float x = bits_float(static_cast<std::uint32_t>(random.next()));
    const std::uint16_t b = f32_to_bf16(x);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(b)));
      continue;
    }
    const double error = std::abs(static_cast<double>(bf16_to_f32(b)) - x);
    const std::uint16_t other[2] = {static_cast<std::uint16_t>(b - 1),
                                    static_cast<std::uint16_t>(b + 1)};
    for (const std::uint16_t o : other) {
      const double distance = std::abs(static_cast<double>(bf16_to_f32(o)) - x);
      if (std::isnan(distance) || std::isinf(distance) || std::isinf(error)) continue;
      EXPECT_TRUE(error < distance || (error == distance && (b & 1) == 0)) << x;
    }
  }
}

}  // namespace
}  // namespace llmc::test

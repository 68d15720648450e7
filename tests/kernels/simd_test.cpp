#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "harness.h"
#include "llmc/simd/vec.h"

namespace llmc::test {
namespace {

/// `got` equals a float computed by the standard library: same bits, or both NaN.
void expect_same(float got, float want, float a, float b, float c) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << a << ' ' << b << ' ' << c;
  } else {
    EXPECT_EQ(bits_of(got), bits_of(want)) << std::hexfloat << a << ' ' << b << ' ' << c;
  }
}

void check_fma(const float (&a)[8], const float (&b)[8], const float (&c)[8]) {
  float got[8];
  store(got, fma(load(a), load(b), load(c)));
  for (int i = 0; i < 8; ++i) expect_same(got[i], std::fma(a[i], b[i], c[i]), a[i], b[i], c[i]);
}

TEST(SimdTest, FmaRoundsOnceOnRandomBits) {
  Random random(7);
  for (int n = 0; n < (kEmulated ? 100000 : 500000) && !HasFailure(); ++n) {
    float a[8], b[8], c[8];
    for (int i = 0; i < 8; ++i) {
      a[i] = bits_float(static_cast<std::uint32_t>(random.next()));
      b[i] = bits_float(static_cast<std::uint32_t>(random.next()));
      c[i] = bits_float(static_cast<std::uint32_t>(random.next()));
    }
    check_fma(a, b, c);
  }
}

TEST(SimdTest, FmaRoundsOnceWhereItIsHard) {
  // The addend within a few exponents of the product, few significant bits (so that sums fall on
  // midpoints), subnormal results.
  Random random(8);
  for (int n = 0; n < (kEmulated ? 100000 : 1000000) && !HasFailure(); ++n) {
    float a[8], b[8], c[8];
    for (int i = 0; i < 8; ++i) {
      const auto some = [&] {
        const std::uint32_t keep = ~0u << random.below(24);
        const auto word = static_cast<std::uint32_t>(random.next());
        return bits_float((word & 0x807fffffu & keep) | (word & 0x80000000u) | 0x3f800000u);
      };
      const int scale = random.below(3) == 0 ? -70 : 0;
      a[i] = std::ldexp(some(), static_cast<int>(random.below(20)) + scale);
      b[i] = std::ldexp(some(), static_cast<int>(random.below(20)) + scale);
      const float product = a[i] * b[i];
      c[i] = std::ldexp(some(), std::ilogb(product == 0 ? 0x1p-140f : product) +
                                    static_cast<int>(random.below(90)) - 45);
    }
    check_fma(a, b, c);
  }
}

TEST(SimdTest, FmaOfSpecialValues) {
  const float values[] = {0.0f,
                          -0.0f,
                          1.0f,
                          -1.0f,
                          0x1p-149f,
                          -0x1p-149f,
                          0x1p-126f,
                          INFINITY,
                          -INFINITY,
                          NAN,
                          0x1.fffffep127f,
                          -0x1.fffffep127f,
                          0x1.000002p0f,
                          0x1.fffffep-1f,
                          0x1p-75f,
                          0x1.fffffcp-127f,
                          3.0f};
  for (const float x : values) {
    for (const float y : values) {
      for (const float z : values) {
        const float a[8] = {x, y, z, x, y, z, x, x}, b[8] = {y, z, x, x, x, y, z, x};
        const float c[8] = {z, x, y, y, z, x, x, x};
        check_fma(a, b, c);
      }
    }
  }
}

TEST(SimdTest, FmaDoesNotRoundTwiceToSubnormals) {
  // 2^-127 + 2^-150 (1 + 2^-46): just above a midpoint that a double cannot tell from it.
  const float a[8] = {0x1p-75f, 0x1p-75f, -0x1p-75f}, b[8] = {0x1.000002p-75f, 0x1p-75f, 0x1p-75f};
  const float c[8] = {0x1p-127f, 0x1p-127f, 0x1p-127f};
  check_fma(a, b, c);
}

TEST(SimdTest, ArithmeticIsThatOfFloats) {
  Random random(9);
  for (int n = 0; n < 100000 && !HasFailure(); ++n) {
    float a[8], b[8], got[8];
    for (int i = 0; i < 8; ++i) {
      a[i] = bits_float(static_cast<std::uint32_t>(random.next()));
      b[i] = bits_float(static_cast<std::uint32_t>(random.next()));
    }
    const auto check = [&](F32x8 v, auto reference) {
      store(got, v);
      for (int i = 0; i < 8; ++i) expect_same(got[i], reference(a[i], b[i]), a[i], b[i], 0);
    };
    const F32x8 x = load(a), y = load(b);
    check(x + y, [](float p, float q) { return p + q; });
    check(x - y, [](float p, float q) { return p - q; });
    check(x * y, [](float p, float q) { return p * q; });
    check(x / y, [](float p, float q) { return p / q; });
    check(sqrt(x), [](float p, float) { return std::sqrt(p); });
    check(max(x, y), [](float p, float q) { return p > q ? p : q; });
    check(min(x, y), [](float p, float q) { return p < q ? p : q; });
    check(select(less(x, y), x, splat(1)), [](float p, float q) { return p < q ? p : 1.0f; });
    std::int32_t whole[8];
    std::memcpy(whole, b, sizeof(b));
    store(got, to_f32(load_i32(whole)));
    for (int i = 0; i < 8; ++i) EXPECT_EQ(got[i], static_cast<float>(whole[i]));
  }
}

template <int d>
void check_butterfly(const float (&a)[8]) {
  float got[8];
  store(got, butterfly<d>(load(a)));
  for (int i = 0; i < 8; ++i) {
    const float u = a[i & ~d], v = a[i | d];
    expect_same(got[i], (i & d) == 0 ? u + v : u - v, u, v, 0);
  }
}

TEST(SimdTest, ButterfliesAddAndSubtractLanes) {
  check_butterfly<4>({0.0f, -0.0f, 0.0f, -0.0f, -0.0f, -0.0f, 0.0f, 0.0f});
  Random random(10);
  for (int n = 0; n < 10000 && !HasFailure(); ++n) {
    float a[8];
    for (float& x : a) x = bits_float(static_cast<std::uint32_t>(random.next()));
    check_butterfly<1>(a);
    check_butterfly<2>(a);
    check_butterfly<4>(a);
  }
}

TEST(SimdTest, PartialLoadsAndStoresTouchNothingElse) {
  for (std::size_t n = 0; n <= 8; ++n) {
    // Exactly n floats: the sanitizer sees a step over the end.
    std::vector<float> values(n);
    std::iota(values.begin(), values.end(), 1.0f);
    float lanes[8];
    store(lanes, load_partial(values.data(), n));
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(lanes[i], i < n ? static_cast<float>(i + 1) : 0);
    float target[9] = {-1, -1, -1, -1, -1, -1, -1, -1, -1};
    store_partial(target, splat(5), n);
    for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(target[i], i < n ? 5 : -1);
  }
}

TEST(SimdTest, ReductionsUseTheWrittenTree) {
  Random random(10);
  for (int n = 0; n < 10000; ++n) {
    float v[8];
    for (float& x : v) x = bits_float(0x30000000u + random.below(0x20000000u));
    const float want = ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
    EXPECT_EQ(bits_of(reduce_add(load(v))), bits_of(want));
    EXPECT_EQ(reduce_max(load(v)), *std::max_element(v, v + 8));
  }
}

TEST(SimdTest, IntegerDotsAreExactAtTheExtremes) {
  for (const int code : {0, 1, 7, 15}) {
    for (const int a : {-128, -127, -1, 0, 1, 127}) {
      std::uint8_t codes[32], scales[8], mins[16];
      std::int8_t four[4];
      std::memset(codes, code, sizeof(codes));
      std::memset(four, a, sizeof(four));
      for (int i = 0; i < 8; ++i) scales[i] = static_cast<std::uint8_t>(0x0f + i * 0x1f);
      for (int i = 0; i < 16; ++i) mins[i] = static_cast<std::uint8_t>(255 - i);
      BlockSum sum = mul_u4(load_codes(codes), load_activation(four));
      for (int i = 1; i < 8; ++i) sum = mac_u4(sum, load_codes(codes), load_activation(four));
      std::int32_t got[8];
      const ScalePair pair = load_scale_pair(scales);
      store_i32(got, add_scaled(splat_i32(3), sum, even_scale(pair)));
      for (int i = 0; i < 8; ++i) EXPECT_EQ(got[i], 3 + 32 * code * a * (scales[i] & 15));
      store_i32(got, add_scaled(splat_i32(3), sum, odd_scale(pair)));
      for (int i = 0; i < 8; ++i) EXPECT_EQ(got[i], 3 + 32 * code * a * (scales[i] >> 4));

      const std::int16_t sums[2] = {static_cast<std::int16_t>(32 * a),
                                    static_cast<std::int16_t>(-31 * a)};
      store_i32(got, add_mins(splat_i32(-5), load_min_pair(mins), sums));
      for (int i = 0; i < 8; ++i) {
        EXPECT_EQ(got[i], -5 + mins[2 * i] * sums[0] + mins[2 * i + 1] * sums[1]);
      }
    }
  }
}

TEST(SimdTest, Dot8IsExact) {
  Random random(11);
  for (int n = 0; n < 20000; ++n) {
    std::uint8_t codes[32];
    std::int8_t four[4];
    for (std::uint8_t& c : codes) {
      c = static_cast<std::uint8_t>(random.below(4) == 0 ? 127 - 254 * random.below(2)
                                                         : random.below(255) - 127);
    }
    for (std::int8_t& a : four) {
      a = static_cast<std::int8_t>(random.below(4) == 0
                                       ? 127 - 254 * static_cast<int>(random.below(2))
                                       : static_cast<int>(random.below(255)) - 127);
    }
    std::int32_t got[8];
    store_i32(got, dot_i8(splat_i32(n), load_codes(codes), load_activation(four)));
    for (int row = 0; row < 8; ++row) {
      int want = n;
      for (int i = 0; i < 4; ++i) want += static_cast<std::int8_t>(codes[row * 4 + i]) * four[i];
      EXPECT_EQ(got[row], want);
    }
  }
}

TEST(SimdTest, SplatsKeepAllBits) {
  // The lane's bits: a sum with 0 would lose the sign of -0.
  for (const float x : {0.0f, -0.0f, 1.5f, -0x1p-149f, 0x1.fffffep127f, INFINITY, -INFINITY}) {
    volatile float hidden = x;  // from the compiler, which may do better with what it knows
    const float y = hidden, memory[1] = {y};
    float got[3][8];
    store(got[0], splat(y));
    store(got[1], splat_at(memory));
    store(got[2], splat_lane(splat(y), 5));
    for (const auto& lanes : got) {
      for (const float lane : lanes) EXPECT_EQ(bits_of(lane), bits_of(x)) << x;
    }
  }
  float got[8];
  store(got, zero_f32());
  for (const float lane : got) EXPECT_EQ(bits_of(lane), 0u);
}

TEST(SimdTest, LanesOfFloatsAndOfActivations) {
  float x[8], got[8];
  for (int i = 0; i < 8; ++i) x[i] = static_cast<float>(3 * i - 7);
  for (std::size_t lane = 0; lane < 8; ++lane) {
    store(got, splat_lane(load(x), lane));
    for (const float y : got) EXPECT_EQ(y, x[lane]);
  }
  alignas(16) std::int8_t activations[32];
  std::uint8_t codes[32];
  for (int i = 0; i < 32; ++i) activations[i] = static_cast<std::int8_t>(9 * i - 128);
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<std::uint8_t>(1 << i % 4);
  // The compiler knows each offset, as load_activation asks.
  const auto check = [&]<std::size_t kAt>() {
    std::int32_t one[8], other[8];
    store_i32(one, dot_i8(zero_i32(), load_codes(codes), load_activation(activations, kAt)));
    store_i32(other, dot_i8(zero_i32(), load_codes(codes), load_activation(activations + kAt)));
    for (int i = 0; i < 8; ++i) EXPECT_EQ(one[i], other[i]) << kAt;
  };
  [&]<std::size_t... kFour>(std::index_sequence<kFour...>) {
    (check.template operator()<kFour * 4>(), ...);
  }(std::make_index_sequence<8>());
}

TEST(SimdTest, SixBitsAreFourAndTwo) {
  std::uint8_t packed[32], upper[32], got[4][32];
  Random random(13);
  for (std::uint8_t& p : packed) p = static_cast<std::uint8_t>(random.next());
  for (std::uint8_t& p : upper) p = static_cast<std::uint8_t>(random.next());
  const Codes low = low_nibbles(load_codes(packed)), bits = load_codes(upper);
  store_codes(got[0], with_upper<0>(low, bits));
  store_codes(got[1], with_upper<1>(low, bits));
  store_codes(got[2], with_upper<2>(low, bits));
  store_codes(got[3], with_upper<3>(low, bits));
  for (int j = 0; j < 4; ++j) {
    for (int i = 0; i < 32; ++i)
      EXPECT_EQ(got[j][i], (packed[i] & 15) | (upper[i] >> (2 * j) & 3) << 4) << j << ' ' << i;
  }
  // The same, split the other way.
  const Codes four = load_codes(packed);
  store_codes(got[0], with_lower<0>(four, bits));
  store_codes(got[1], with_lower<1>(four, bits));
  store_codes(got[2], with_lower<2>(four, bits));
  store_codes(got[3], with_lower<3>(four, bits));
  for (int j = 0; j < 4; ++j) {
    for (int i = 0; i < 32; ++i)
      EXPECT_EQ(got[j][i], (packed[i] >> j % 2 * 4 & 15) << 2 | (upper[i] >> (2 * j) & 3))
          << j << ' ' << i;
  }
  // The largest sums there are, of both signs; and each code by its own activation.
  struct Case {
    std::int8_t first, second, a, b;
  };
  std::vector<Case> cases = {{63, 63, 127, 127}, {63, 63, -127, -127}, {63, 5, 11, -90}};
  if (kSignedCodes)
    cases.insert(cases.end(), {{-32, -32, 127, 127}, {-32, -32, -127, -127}, {-32, 31, 11, -90}});
  for (const Case c : cases) {
    std::int8_t a[4], b[4];
    std::uint8_t first[32], second[32];
    std::fill(a, a + 4, c.a);
    std::fill(b, b + 4, c.b);
    std::fill(first, first + 32, static_cast<std::uint8_t>(c.first));
    std::fill(second, second + 32, static_cast<std::uint8_t>(c.second));
    std::int32_t sums[8];
    store_i32(sums, dot_u6(splat_i32(5), load_codes(first), load_activation(a), load_codes(second),
                           load_activation(b)));
    for (const std::int32_t sum : sums) EXPECT_EQ(sum, 5 + 4 * (c.first * c.a + c.second * c.b));
  }
}

TEST(SimdTest, UpperHalvesAreSignedNumbers) {
  for (const int n : {-32768, -4064, -1, 0, 1, 4064, 32767}) {
    float got[8];
    store(got, upper_to_f32(splat_i32(n * 65536 + 0x8001)));
    for (const float y : got) EXPECT_EQ(y, static_cast<float>(n));
  }
}

TEST(SimdTest, NibblesAndBytes) {
  std::uint8_t packed[32], low[32], high[32];
  std::int8_t bytes[32];
  Random random(12);
  for (std::uint8_t& p : packed) p = static_cast<std::uint8_t>(random.next());
  store_codes(low, low_nibbles(load_codes(packed)));
  store_codes(high, high_nibbles(load_codes(packed)));
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(low[i], packed[i] & 15);
    EXPECT_EQ(high[i], packed[i] >> 4);
  }
  store_codes(low, centred<8>(low_nibbles(load_codes(packed))));
  for (int i = 0; i < 32; ++i) EXPECT_EQ(static_cast<std::int8_t>(low[i]), (packed[i] & 15) - 8);
  std::int32_t words[32];
  for (int i = 0; i < 32; ++i) words[i] = i < 30 ? i * 8 - 127 : (i == 30 ? 1000 : -1000);
  store_i8(bytes, load_i32(words), load_i32(words + 8), load_i32(words + 16), load_i32(words + 24));
  for (int i = 0; i < 32; ++i) EXPECT_EQ(bytes[i], std::clamp(words[i], -128, 127));
}

}  // namespace
}  // namespace llmc::test

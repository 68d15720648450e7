#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness.h"
#include "llmc/math.h"

namespace llmc::test {
namespace {

/// Floats of every kind, 16 at a time, apart from each other in memory.
struct Operand {
  explicit Operand(Random& random) {
    for (float& lane : lanes) {
      lane = random.below(8) == 0 ? kSpecial[random.below(std::size(kSpecial))]
                                  : bits_float(static_cast<std::uint32_t>(random.next()));
    }
  }
  static constexpr float kSpecial[] = {0.0f,      -0.0f,    1.0f,    -87.0f, -87.1f,
                                       -INFINITY, INFINITY, -1e-40f, NAN};
  F32x8 low() const { return load(lanes); }
  F32x8 high() const { return load(lanes + 11); }
  F32x16 wide() const { return load(lanes, lanes + 11); }
  float lanes[19];
};

/// `wide` has the lanes of `first` and `second`; NaNs need not have the same bits.
void expect_lanes(F32x16 wide, F32x8 first, F32x8 second) {
  float got[19], want[16];
  store(got, got + 11, wide);
  store(want, first);
  store(want + 8, second);
  for (int i = 0; i < 16; ++i) {
    const float lane = got[i < 8 ? i : i + 3];
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(lane)) << i;
    } else {
      EXPECT_EQ(bits_of(lane), bits_of(want[i])) << i;
    }
  }
}

// Says something where the target has vectors of its own, AVX-512; elsewhere they are two of eight.
TEST(WideTest, IsTwoVectorsOfEight) {
  Random random(3);
  for (int n = 0; n < 20000 && !testing::Test::HasFailure(); ++n) {
    const Operand a(random), b(random), c(random);
    expect_lanes(a.wide(), a.low(), a.high());
    expect_lanes(a.wide() + b.wide(), a.low() + b.low(), a.high() + b.high());
    expect_lanes(a.wide() - b.wide(), a.low() - b.low(), a.high() - b.high());
    expect_lanes(a.wide() * b.wide(), a.low() * b.low(), a.high() * b.high());
    expect_lanes(fma(a.wide(), b.wide(), c.wide()), fma(a.low(), b.low(), c.low()),
                 fma(a.high(), b.high(), c.high()));
    expect_lanes(add_exponent(a.wide(), b.wide()), add_exponent(a.low(), b.low()),
                 add_exponent(a.high(), b.high()));
    expect_lanes(zero_below(a.wide(), -87.0f, b.wide()), zero_below(a.low(), -87.0f, b.low()),
                 zero_below(a.high(), -87.0f, b.high()));
    expect_lanes(a.wide(), low(a.wide()), high(a.wide()));
    expect_lanes(join(a.low(), b.high()), a.low(), b.high());
    expect_lanes(splat16(a.lanes[0]), splat(a.lanes[0]), splat(a.lanes[0]));
    expect_lanes(splat16_at(a.lanes), splat(a.lanes[0]), splat(a.lanes[0]));
    expect_lanes(exp_nonpositive(a.wide()), exp_nonpositive(a.low()), exp_nonpositive(a.high()));
  }
  expect_lanes(zero_f32x16(), zero_f32(), zero_f32());
}

/// Loads 16 numbers of a memory format from two unaligned addresses, and compares both widths. As
/// above, this says something where the target has vectors of 16.
template <class Numbers>
void expect_loads(Random& random) {
  constexpr std::size_t kNumber = Numbers::kBytes;
  constexpr std::size_t kFirst = 1 + kNumber, kSecond = kFirst + 3 + 8 * kNumber;
  unsigned char bytes[kSecond + 8 * kNumber];
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random.next());
  const unsigned char* const rows[] = {bytes + kFirst - kNumber, bytes + kSecond - kNumber};
  expect_lanes(Lanes<2>::load<Numbers>(rows, 1), Numbers::load(bytes + kFirst),
               Numbers::load(bytes + kSecond));
}

TEST(WideTest, LoadsAreThoseOfTwoVectorsOfEight) {
  Random random(4);
  for (int n = 0; n < 2000 && !testing::Test::HasFailure(); ++n) {
    expect_loads<KvNumbers<KvFormat::kF32>>(random);
    expect_loads<KvNumbers<KvFormat::kF16>>(random);
    expect_loads<KvNumbers<KvFormat::kInt8>>(random);
    expect_loads<KvNumbers<KvFormat::kFp8>>(random);
  }
}

TEST(WideTest, OneVectorAndTwoHaveTheSameNames) {
  const std::vector<float> x = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
  const auto* bytes = reinterpret_cast<const unsigned char*>(x.data());
  const unsigned char* const rows[] = {bytes, bytes + 9 * sizeof(float)};
  expect_lanes(Lanes<2>::load<Floats>(rows, 1), load(x.data() + 1), load(x.data() + 10));
  expect_lanes(Lanes<2>::load(x.data()), load(x.data()), load(x.data() + 8));
  float one[8], two[16];
  Lanes<1>::store(one, Lanes<1>::load<Floats>(rows, 1));
  Lanes<2>::store(two, Lanes<2>::load(x.data() + 1));
  EXPECT_TRUE(std::equal(one, one + 8, x.data() + 1));
  EXPECT_TRUE(std::equal(two, two + 16, x.data() + 1));
}

}  // namespace
}  // namespace llmc::test

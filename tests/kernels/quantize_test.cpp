#include "llmc/kernels/quantize.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

#include "linear.h"

namespace llmc::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Quantize, AnythingNotFiniteIsNanInItsBlockAndNowhereElse) {
  constexpr std::size_t K = 512;
  for (const float odd : {kInfinity, -kInfinity, std::nanf("")}) {
    auto x = random_floats(K, 71);
    x[3] = odd;
    Aligned<unsigned char> area(quantized_bytes(K, 1), 0xff);
    const Quantized out = quantized_at<K>(area.data(), 1);
    quantize_row<K>(x.data(), out, 0);
    // The bits, not just any NaN: the same on every target.
    EXPECT_EQ(bits_of(out.scales[0]), 0x7fc00000u) << odd;
    for (std::size_t k = 0; k < 256; ++k) ASSERT_EQ(out.codes[k], 0) << odd << " at " << k;
    for (std::size_t b = 0; b < 8; ++b) EXPECT_EQ(out.sums[b], 0) << odd;
    EXPECT_TRUE(std::isfinite(out.scales[1]));
    bool any = false;
    for (std::size_t k = 256; k < K; ++k) any = any || out.codes[k] != 0;
    EXPECT_TRUE(any);
  }
}

TEST(Quantize, TransformedRowsSpreadOutliersAndConstants) {
  constexpr std::size_t K = 256;
  const auto largest_of = [](const Aligned<float>& x) {
    Aligned<unsigned char> area(quantized_bytes(K, 1), 0xff);
    const Quantized out = quantized_at<K>(area.data(), 1);
    quantize_row<K, Basis::kHadamard>(x.data(), out, 0);
    return out.scales[0] * 127;
  };
  Aligned<float> x(K);
  x[77] = 16;
  EXPECT_EQ(largest_of(x), 1);
  for (std::size_t k = 0; k < K; ++k) x[k] = 1;
  EXPECT_EQ(largest_of(x), 4);  // 16 without the signs
}

TEST(Quantize, TransformedRowsThatAreNotFiniteOrOverflowAreNan) {
  constexpr std::size_t K = 288;
  for (const float odd : {kInfinity, std::nanf(""), std::numeric_limits<float>::max()}) {
    auto x = random_floats(K, 72);
    x[3] = x[19] = odd;
    Aligned<unsigned char> area(quantized_bytes(K, 1), 0xff);
    const Quantized out = quantized_at<K>(area.data(), 1);
    quantize_row<K, Basis::kHadamard>(x.data(), out, 0);
    EXPECT_EQ(bits_of(out.scales[0]), 0x7fc00000u) << odd;
    for (std::size_t k = 0; k < 256; ++k) ASSERT_EQ(out.codes[k], 0) << odd << " at " << k;
    EXPECT_TRUE(std::isfinite(out.scales[1]));
  }
}

TEST(Quantize, TheLargestFiniteValueIsOrdinary) {
  constexpr std::size_t K = 256;
  Aligned<float> x(K);
  x[0] = std::numeric_limits<float>::max();
  x[1] = -x[0];
  Aligned<unsigned char> area(quantized_bytes(K, 1), 0xff);
  const Quantized out = quantized_at<K>(area.data(), 1);
  quantize_row<K>(x.data(), out, 0);
  EXPECT_EQ(out.scales[0], x[0] / 127.0f);
  EXPECT_EQ(out.codes[0], 127);
  EXPECT_EQ(out.codes[1], -127);
}

TEST(Quantize, EveryCodeHasItsPlace) {
  constexpr std::size_t K = 77, kTokens = 70;
  const auto x = random_floats(kTokens * K, 73, 2);
  Aligned<unsigned char> area(quantized_bytes(K, kTokens), 0xff);
  const Quantized out = quantized_at<K>(area.data(), kTokens);
  for (std::size_t t = 0; t < kTokens; ++t) quantize_row<K>(x.data() + t * K, out, t);
  std::vector<bool> used(block_count(K) * kTokens * kBlock);
  for (std::size_t t = 0; t < kTokens; ++t) {
    const ReferenceActivation want = reference_quantize(x.data() + t * K, K);
    const ActivationPlace place = activation_place(t, kTokens);
    ASSERT_LE(place.first, t);
    ASSERT_LT(t, place.first + place.width);
    for (std::size_t k = 0; k < block_count(K) * kBlock; ++k) {
      const std::size_t at = (k / kBlock * kTokens + place.first) * kBlock +
                             activation_offset(place.width, t - place.first, k % kBlock);
      ASSERT_LT(at, used.size());
      ASSERT_FALSE(used[at]) << "token " << t << ", k " << k;
      used[at] = true;
      ASSERT_EQ(out.codes[at], k < K ? want.code[k] : 0) << "token " << t << ", k " << k;
    }
  }
}

TEST(Quantize, InfinityMakesItsTokenNanAndNoOther) {
  constexpr std::size_t N = 16, K = 300;
  using W = WeightQ4<N, K>;
  const auto data = make_weight<W>(N, 31);
  auto x = random_floats(8 * K, 32);
  x[3 * K + 5] = kInfinity;
  Aligned<float> y(8 * N);
  run_linear(make_run(8, 1), Rows<K>{x.data()}, W{data.data()}, Store<N>{y.data()});
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / N == 3) << i;
}

}  // namespace
}  // namespace llmc::test

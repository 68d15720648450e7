#include "linear.h"

#include <gmock/gmock.h>

#include <cmath>

namespace llmc::test {
namespace {

constexpr std::uint32_t kTokenCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 32, 70, 129, 144};

template <class T>
class LinearTest : public testing::Test {};

using LinearCases = testing::Types<
    Case<WeightKind::kQ4, 8, 32>, Case<WeightKind::kQ4, 88, 256>, Case<WeightKind::kQ4, 13, 77>,
    Case<WeightKind::kQ4, 40, 288>, Case<WeightKind::kQ4, 17, 511>, Case<WeightKind::kQ4, 64, 1100>,
    Case<WeightKind::kQ4, 9, 1>, Case<WeightKind::kQ8, 8, 32>, Case<WeightKind::kQ8, 88, 256>,
    Case<WeightKind::kQ8, 13, 77>, Case<WeightKind::kQ8, 40, 288>, Case<WeightKind::kQ8, 17, 511>,
    Case<WeightKind::kF16, 8, 32>, Case<WeightKind::kF16, 13, 77>, Case<WeightKind::kF16, 56, 261>,
    Case<WeightKind::kF32, 8, 32>, Case<WeightKind::kF32, 13, 77>, Case<WeightKind::kF32, 56, 261>,
    Case<WeightKind::kF32, 9, 1>, Case<WeightKind::kQ4, 40, 288, Basis::kHadamard>,
    Case<coded_weight(kSixBits), 88, 480, Basis::kHadamard>,
    Case<coded_weight(kSplitSixBits), 88, 480, Basis::kHadamard>,
    Case<coded_weight(kSplitSixBits), 13, 77>, Case<coded_weight(kSplitSixBits), 56, 1100>,
    Case<WeightKind::kQ8, 13, 77, Basis::kHadamard>,
    Case<WeightKind::kQ8, 17, 511, Basis::kHadamard>,
    Case<WeightKind::kQ8, 24, 640, Basis::kHadamard>>;
TYPED_TEST_SUITE(LinearTest, LinearCases);

TYPED_TEST(LinearTest, StoresTheDocumentedBits) {
  using W = typename TypeParam::W;
  constexpr std::size_t N = TypeParam::N, K = TypeParam::K;
  const auto data = make_weight<W>(N, 100 + N);
  const auto bias = random_floats(packed_rows(N), 5);
  const auto x = random_floats(kTokenCounts[std::size(kTokenCounts) - 1] * K, 200, 3);
  const auto want = reference_products<TypeParam>(data.data(), x);
  for (const std::uint32_t tokens : kTokenCounts) {
    for (const std::uint32_t threads : {1u, 3u, 4u}) {
      Aligned<float> y(tokens * N), biased(tokens * N);
      const TestRun run = make_run(tokens, threads);
      run_linear(run, Rows<K>{x.data()}, W{data.data()}, Store<N>{y.data()});
      run_linear(run, Rows<K>{x.data()}, W{data.data()}, Store<N>{biased.data(), bias.data()});
      for (std::size_t i = 0; i < tokens * N; ++i) {
        ASSERT_EQ(bits_of(y[i]), bits_of(want[i]))
            << "tokens " << tokens << " token " << i / N << " row " << i % N << ": " << y[i]
            << " not " << want[i];
        ASSERT_EQ(bits_of(biased[i]), bits_of(want[i] + bias[i % N]));
      }
    }
  }
}

TYPED_TEST(LinearTest, IsCloseToTheFloatProductOfDecodedWeights) {
  using W = typename TypeParam::W;
  constexpr std::size_t N = TypeParam::N, K = TypeParam::K;
  const auto data = make_weight<W>(N, 100 + N);
  const auto x = random_floats(K, 3);
  Aligned<float> y(N);
  run_linear(make_run(1, 1), Rows<K>{x.data()}, W{data.data()}, Store<N>{y.data()});
  const ReferenceInput input = reference_transform(x.data(), K, W::kBasis);
  for (std::size_t n = 0; n < N; ++n) {
    double want = 0, size = 0;
    for (std::size_t k = 0; k < K; ++k) {
      const double term =
          static_cast<double>(decoded<W>(data.data(), n, k)) * input.x[k] * input.scale[k / 256];
      want += term;
      size += std::abs(term);
    }
    // int8 activations: half a step of 1/127 of the largest on each.
    const double allowed = W::kQuantized ? 0.01 : 1e-5;
    EXPECT_NEAR(y[n], want, allowed * size + 1e-30) << n;
  }
}

TEST(LinearTestInputs, ZerosAndTinyValuesGiveNoNan) {
  constexpr std::size_t N = 8, K = 300;
  using W = WeightQ4<N, K>;
  const auto data = make_weight<W>(N, 30);
  Aligned<float> x(3 * K), y(3 * N);
  for (std::size_t k = 0; k < K; ++k) x[K + k] = k % 3 == 0 ? 0x1p-140f : 0;
  for (std::size_t k = 0; k < K; ++k) x[2 * K + k] = k < 256 ? 0.0f : 1.0f;
  run_linear(make_run(3, 1), Rows<K>{x.data()}, W{data.data()}, Store<N>{y.data()});
  for (std::size_t n = 0; n < 2 * N; ++n) EXPECT_EQ(y[n], 0.0f);
  for (std::size_t n = 2 * N; n < 3 * N; ++n) EXPECT_TRUE(std::isfinite(y[n]));
}

TEST(LinearTestInputs, NanStaysInItsToken) {
  constexpr std::size_t N = 16, K = 64;
  using W = WeightQ4<N, K>;
  const auto data = make_weight<W>(N, 31);
  auto x = random_floats(8 * K, 32);
  x[3 * K + 5] = NAN;
  Aligned<float> y(8 * N);
  run_linear(make_run(8, 1), Rows<K>{x.data()}, W{data.data()}, Store<N>{y.data()});
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / N == 3) << i;
}

/// Rows that were quantized before have the bits of rows of floats, in the layout of any target.
TYPED_TEST(LinearTest, TakesQuantizedRows) {
  using W = typename TypeParam::W;
  constexpr std::size_t N = TypeParam::N, K = TypeParam::K;
  if constexpr (W::kQuantized) {
    const auto data = make_weight<W>(N, 5);
    for (const std::uint32_t tokens : {1u, 2u, 7u, 130u}) {
      const auto x = random_floats(tokens * K, 6, 2);
      const TestRun run = make_run(tokens, 1);
      Aligned<float> want(tokens * N), y(tokens * N);
      Aligned<std::uint8_t> rows(tokens * quantized_bytes(K, 1), 0xff);
      quantize_rows<K, W::kBasis>(KernelContext{&run, tokens, nullptr}, x.data(), rows.data());
      run_linear(run, Rows<K>{x.data()}, W{data.data()}, Store<N>{want.data()});
      run_linear(run, QuantizedRows<K>{rows.data()}, W{data.data()}, Store<N>{y.data()});
      EXPECT_TRUE(y == want) << tokens << " tokens";
    }
  }
}

}  // namespace
}  // namespace llmc::test

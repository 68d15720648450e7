#include <gtest/gtest.h>

#include <cmath>

#include "linear.h"

/// Products of weights that keep the codes they arrived in, in all the forms of a block.
namespace llmc::test {
namespace {

constexpr std::uint32_t kCodedTokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 17, 130};

template <std::uint32_t kBits, std::uint32_t kBlockWidth, CodedScale kScale, CodedZero kZero,
          std::size_t kN, std::size_t kK>
using Coded = Case<coded_weight({kBits, kBlockWidth, kScale, kZero}), kN, kK>;

constexpr auto kHalf = CodedScale::kF16, kFull = CodedScale::kF32;
constexpr auto kNone = CodedZero::kNone, kInteger = CodedZero::kInteger;
constexpr auto kFloat = CodedZero::kFloat;

template <class T>
class CodedTest : public testing::Test {};

using CodedCases =
    testing::Types<Coded<4, 32, kFull, kInteger, 40, 288>, Coded<4, 32, kHalf, kNone, 17, 511>,
                   Coded<4, 16, kFull, kInteger, 13, 77>, Coded<4, 16, kHalf, kNone, 8, 272>,
                   Coded<4, 64, kHalf, kFloat, 9, 300>, Coded<4, 128, kFull, kFloat, 24, 352>,
                   Coded<4, 256, kFull, kNone, 8, 1100>, Coded<4, 64, kFull, kInteger, 9, 1>,
                   Coded<8, 32, kFull, kInteger, 13, 288>, Coded<8, 16, kHalf, kInteger, 9, 330>,
                   Coded<8, 64, kFull, kFloat, 17, 77>, Coded<8, 128, kHalf, kNone, 8, 511>,
                   Coded<8, 256, kFull, kNone, 16, 600>, Coded<6, 32, kHalf, kNone, 40, 288>,
                   Coded<6, 32, kHalf, kNone, 13, 511>, Coded<6, 32, kHalf, kNone, 9, 1>>;
TYPED_TEST_SUITE(CodedTest, CodedCases);

TYPED_TEST(CodedTest, StoresTheDocumentedBits) {
  using W = typename TypeParam::W;
  constexpr std::size_t N = TypeParam::N, K = TypeParam::K;
  const auto data = make_weight<W>(N, 100 + N);
  const auto x = random_floats(kCodedTokens[std::size(kCodedTokens) - 1] * K, 200, 3);
  const auto want = reference_products<TypeParam>(data.data(), x);
  for (const std::uint32_t tokens : kCodedTokens) {
    for (const std::uint32_t threads : {1u, 3u, 4u}) {
      Aligned<float> y(tokens * N);
      run_linear(make_run(tokens, threads), Rows<K>{x.data()}, W{data.data()}, Store<N>{y.data()});
      for (std::size_t i = 0; i < tokens * N; ++i) {
        ASSERT_EQ(bits_of(y[i]), bits_of(want[i]))
            << "tokens " << tokens << " token " << i / N << " row " << i % N << ": " << y[i]
            << " not " << want[i];
      }
    }
  }
}

TYPED_TEST(CodedTest, IsCloseToTheFloatProductOfDecodedWeights) {
  using W = typename TypeParam::W;
  constexpr std::size_t N = TypeParam::N, K = TypeParam::K;
  const auto data = make_weight<W>(N, 100 + N);
  const auto x = random_floats(K, 3);
  Aligned<float> y(N);
  run_linear(make_run(1, 1), Rows<K>{x.data()}, W{data.data()}, Store<N>{y.data()});
  for (std::size_t n = 0; n < N; ++n) {
    double want = 0, size = 0;
    for (std::size_t k = 0; k < K; ++k) {
      const double term = static_cast<double>(decoded<W>(data.data(), n, k)) * x[k];
      want += term;
      size += std::abs(term);
    }
    EXPECT_NEAR(y[n], want, 0.02 * size) << "row " << n;
  }
}

}  // namespace
}  // namespace llmc::test

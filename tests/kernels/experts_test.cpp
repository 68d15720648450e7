#include "llmc/kernels/experts.h"

#include <gmock/gmock.h>

#include "linear.h"

namespace llmc::test {
namespace {

template <WeightKind kKind, std::size_t kExperts, std::size_t kN, std::size_t kK,
          Basis kBasis = Basis::kPlain>
struct ExpertCase {
  static constexpr std::size_t experts = kExperts, N = kN, K = kK;
  using All = Weight<kKind, kExperts * kN, kK, kBasis>;
  using One = Weight<kKind, kN, kK, kBasis>;
};

template <class T>
class ExpertsTest : public testing::Test {
 protected:
  using All = typename T::All;
  using One = typename T::One;
  static constexpr std::size_t N = T::N, K = T::K;

  /// Runs a stage in a work area of exactly the published size.
  Aligned<float> run(const Aligned<float>& x, const std::vector<std::int64_t>& ids,
                     std::size_t slots, std::uint32_t threads, const float* bias = nullptr) const {
    return run(x, ids.size() / slots, ids.data(), slots, threads, bias);
  }
  Aligned<float> run(const Aligned<float>& x, std::size_t tokens, const std::int64_t* ids,
                     std::size_t slots, std::uint32_t threads, const float* bias = nullptr) const {
    const TestRun run = make_run(static_cast<std::uint32_t>(tokens), threads);
    Aligned<unsigned char> work(
        expert_work_bytes(All::kKind, K, slots, T::experts, tokens, threads), 0xff);
    Aligned<float> y(tokens * slots * N);
    expert_linear<T::experts>(KernelContext{&run, run.count, work.data()}, x.data(), ids, slots,
                              All{data_.data()}, y.data(), bias);
    return y;
  }

  const Aligned<unsigned char> data_ = make_weight<All>(T::experts * N, 100 + N);
};

using ExpertCases =
    testing::Types<ExpertCase<WeightKind::kQ4, 4, 16, 256>, ExpertCase<WeightKind::kQ4, 5, 40, 300>,
                   ExpertCase<coded_weight(kSixBits), 3, 24, 77>,
                   ExpertCase<WeightKind::kQ8, 7, 8, 511>, ExpertCase<WeightKind::kF16, 4, 24, 32>,
                   ExpertCase<WeightKind::kF32, 6, 16, 77>,
                   ExpertCase<WeightKind::kQ4, 5, 16, 288, Basis::kHadamard>>;
TYPED_TEST_SUITE(ExpertsTest, ExpertCases);

TYPED_TEST(ExpertsTest, EachRowHasTheWeightsOfItsExpert) {
  constexpr std::size_t N = TypeParam::N, K = TypeParam::K, experts = TypeParam::experts;
  const auto bias = random_floats(experts * N, 5);
  for (const std::size_t slots : {std::size_t{1}, std::size_t{2}, std::size_t{3}})
    for (const std::size_t tokens : {1u, 2u, 5u, 33u, 150u}) {
      const std::size_t rows = tokens * slots;
      const auto x = random_floats(rows * K, 200 + rows, 3);
      std::vector<std::int64_t> ids(rows);
      for (std::size_t r = 0; r < rows; ++r)
        ids[r] = static_cast<std::int64_t>((r * r + r / 3) % experts);
      for (const std::uint32_t threads : {1u, 3u}) {
        const auto y = this->run(x, ids, slots, threads);
        const auto biased = this->run(x, ids, slots, threads, bias.data());
        for (std::size_t r = 0; r < rows; ++r) {
          const auto e = static_cast<std::size_t>(ids[r]);
          const auto want = reference_product<typename TypeParam::One>(
              this->data_.data() + e * TypeParam::One::bytes, x.data() + r * K);
          for (std::size_t n = 0; n < N; ++n) {
            ASSERT_EQ(bits_of(y[r * N + n]), bits_of(want[n]))
                << "slots " << slots << " tokens " << tokens << " row " << r << " element " << n;
            ASSERT_EQ(bits_of(biased[r * N + n]), bits_of(want[n] + bias[e * N + n]));
          }
        }
      }
    }
}

TYPED_TEST(ExpertsTest, WithoutIdsRowsHaveTheExpertsInTurn) {
  constexpr std::size_t experts = TypeParam::experts, rows = 3 * experts;
  const auto x = random_floats(rows * TypeParam::K, 11);
  std::vector<std::int64_t> ids(rows);
  for (std::size_t r = 0; r < rows; ++r) ids[r] = static_cast<std::int64_t>(r % experts);
  const auto want = this->run(x, ids, experts, 2);
  const auto y = this->run(x, rows / experts, nullptr, experts, 2);
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(bits_of(y[i]), bits_of(want[i])) << i;
}

TYPED_TEST(ExpertsTest, LimitsIds) {
  constexpr std::size_t N = TypeParam::N, K = TypeParam::K;
  constexpr std::int64_t last = TypeParam::experts - 1;
  const auto x = random_floats(3 * K, 9);
  const auto y = this->run(x, {-5, INT64_MAX, last + 1}, 3, 2);
  const auto want = this->run(x, {0, last, last}, 3, 2);
  for (std::size_t i = 0; i < 3 * N; ++i) ASSERT_EQ(bits_of(y[i]), bits_of(want[i])) << i;
}

}  // namespace
}  // namespace llmc::test

#include "llmc/kernels/windows.h"

#include <gmock/gmock.h>

#include "linear.h"
#include "llmc/function/types.h"

namespace llmc::test {
namespace {

using function::RuntimeSizes;
using function::Sizes;

/// Runs a stage in a work area of exactly the published size.
template <class W, class Source, class Epilogue>
void run_windows(const llmc_run& run, const Source& source, const W& weight,
                 const Epilogue& epilogue) {
  Aligned<unsigned char> work(
      linear_rows_work_bytes(W::kKind, W::kColumns, Epilogue::kUnitPanels, run.count, run.threads,
                             W::kQuantized || Source::kCopied, Source::kInBlocks),
      0xff);
  linear_rows(KernelContext{&run, run.count, work.data()}, source, weight, epilogue);
}

/// Expects the bits of linear() over a copy of the windows, whose elements are at `at`.
template <WeightKind kKind, std::size_t kN, std::size_t kK, Basis kBasis = Basis::kPlain,
          class Source>
void expect_copied_rows(const Source& source, const std::vector<std::size_t>& at) {
  using W = typename Case<kKind, kN, kK, kBasis>::W;
  const std::size_t rows = at.size() / kK;
  Aligned<float> copy(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) copy[i] = source.x[at[i]];
  const auto data = make_weight<W>(kN, 7);
  const auto bias = random_floats(packed_rows(kN), 8);
  const auto added = random_floats(rows * kN, 9);
  Aligned<float> want(rows * kN);
  run_linear(make_run(static_cast<std::uint32_t>(rows), 1), Rows<kK>{copy.data()}, W{data.data()},
             AddStore<kN>{want.data(), added.data(), bias.data()});
  for (const std::uint32_t threads : {1u, 3u}) {
    Aligned<float> y(rows * kN);
    run_windows(make_run(static_cast<std::uint32_t>(rows), threads), source, W{data.data()},
                AddStore<kN>{y.data(), added.data(), bias.data()});
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(bits_of(y[i]), bits_of(want[i])) << "row " << i / kN << " column " << i % kN;
  }
}

/// Rows that several workers divide, because there are few panels, and rows that they do not.
TEST(LinearRows, HasTheBitsOfLinear) {
  for (const std::size_t rows : {std::size_t{71}, std::size_t{72}, std::size_t{500}}) {
    const auto x = random_floats(rows * 40, 1);
    std::vector<std::size_t> at(rows * 40);
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = i;
    expect_copied_rows<WeightKind::kF32, 16, 40>(Rows<40>{x.data()}, at);
    expect_copied_rows<WeightKind::kQ4, 16, 40>(Rows<40>{x.data()}, at);
    expect_copied_rows<WeightKind::kQ8, 200, 40>(Rows<40>{x.data()}, at);
  }
}

TEST(LinearRows, BeginsSourcesAtABlock) {
  constexpr std::size_t kRows = 300, kK = 40, kN = 16;
  const auto x = random_floats(kRows * kK, 1), weight = random_floats(kK, 2),
             bias = random_floats(kK, 3);
  using W = Case<WeightKind::kF32, kN, kK, Basis::kPlain>::W;
  const auto data = make_weight<W>(kN, 7);
  const auto expect_equal = [&](const auto& source) {
    Aligned<float> want(kRows * kN), y(kRows * kN);
    run_linear(make_run(kRows, 1), source, W{data.data()}, Store<kN>{.y = want.data()});
    run_windows(make_run(kRows, 3), source, W{data.data()}, Store<kN>{.y = y.data()});
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(bits_of(y[i]), bits_of(want[i])) << i;
  };
  expect_equal(RmsNorm<kK>{x.data(), weight.data(), 1e-5f});
  expect_equal(LayerNorm<kK>{x.data(), weight.data(), bias.data(), 1e-5f});
}

TEST(LinearRows, BlocksFitTheWorkArea) {
  for (const WeightKind kind : {WeightKind::kF32, WeightKind::kQ8})
    for (const std::size_t k : {std::size_t{40}, std::size_t{4608}, std::size_t{20000}})
      for (const std::size_t rows : {1, 23, 24, 100, 1000, 100000}) {
        EXPECT_GE(row_block(kind, k, rows, 8), kMinRowBlock);
        EXPECT_LE(row_block(kind, k, rows, 8), kTokenStrip);
        for (const bool in_blocks : {false, true})
          for (std::size_t threads = 1; threads < 9; ++threads)
            EXPECT_LE(linear_rows_work_bytes(kind, k, 1, rows, threads, true, in_blocks),
                      linear_rows_work_bytes(kind, k, 1, rows, 9, true, in_blocks));
      }
  EXPECT_LT(linear_rows_work_bytes(WeightKind::kF32, 576, 1, 100000, 8, true, true), 4u << 20);
}

/// More windows than are prepared at a time; two sounds, of which the windows overlap.
TEST(LinearWindows, ConsecutiveElements) {
  constexpr std::size_t kCount = 589, kSize = (kCount - 1) * 8 + 40;
  const auto x = random_floats(2 * kSize, 1);
  std::vector<std::size_t> at;
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t p = 0; p < kCount; ++p)
      for (std::size_t k = 0; k < 40; ++k) at.push_back(n * kSize + p * 8 + k);
  const RuntimeSizes<2> counts{{2, kCount}}, steps{{kSize, 8}};
  expect_copied_rows<WeightKind::kQ8, 13, 40>(
      windows<40>(x.data(), counts, steps, Sizes<40>{}, Sizes<1>{}), at);
  expect_copied_rows<WeightKind::kQ4, 16, 40>(
      windows<40>(x.data(), counts, steps, Sizes<40>{}, Sizes<1>{}), at);
  expect_copied_rows<WeightKind::kF32, 16, 40>(
      windows<40>(x.data(), counts, steps, Sizes<40>{}, Sizes<1>{}), at);
}

/// 3 x 2 taps of an image [9, 7, 8], 2 apart in the rows.
TEST(LinearWindows, Runs) {
  const auto x = random_floats(9 * 7 * 8, 2);
  std::vector<std::size_t> at;
  for (std::size_t r = 0; r < 5; ++r)
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t k = 0; k < 16; ++k) at.push_back((r + 2 * i) * 56 + 2 * c * 8 + k);
  const auto of_image =
      windows<48>(x.data(), Sizes<5, 3>{}, Sizes<56, 16>{}, Sizes<3, 16>{}, Sizes<112, 1>{});
  expect_copied_rows<coded_weight(kSixBits), 24, 48>(of_image, at);
  expect_copied_rows<WeightKind::kF16, 24, 48>(of_image, at);
}

/// Three dims of taps, the last with a dilation: runs of one element.
TEST(LinearWindows, SingleElements) {
  const auto x = random_floats(4 * 5 * 9, 3);
  std::vector<std::size_t> at;
  for (std::size_t p = 0; p < 2; ++p)
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 5; ++j)
        for (std::size_t k = 0; k < 3; ++k) at.push_back((p + i) * 45 + j * 9 + 4 * k);
  expect_copied_rows<WeightKind::kQ8, 8, 45>(
      windows<45>(x.data(), Sizes<2>{}, Sizes<45>{}, Sizes<3, 5, 3, 1>{}, Sizes<45, 9, 4, 1>{}),
      at);
}

TEST(LinearWindows, OneWindow) {
  const auto x = random_floats(33, 4);
  std::vector<std::size_t> at;
  for (std::size_t k = 0; k < 33; ++k) at.push_back(k);
  expect_copied_rows<WeightKind::kQ4, 9, 33>(
      windows<33>(x.data(), Sizes<>{}, Sizes<>{}, Sizes<33>{}, Sizes<1>{}), at);
  expect_copied_rows<WeightKind::kF32, 9, 33>(
      windows<33>(x.data(), Sizes<>{}, Sizes<>{}, Sizes<33>{}, Sizes<1>{}), at);
  at.resize(32);
  expect_copied_rows<WeightKind::kQ4, 9, 32, Basis::kHadamard>(
      windows<32>(x.data(), Sizes<>{}, Sizes<>{}, Sizes<32>{}, Sizes<1>{}), at);
}

}  // namespace
}  // namespace llmc::test

#include "llmc/kernels/choose.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "linear.h"
#include "llmc/kernels/argmax.h"

/// The choice from a split head beside the first maximum of the whole product: equal bits, and
/// fewer panels read.
namespace llmc::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Sets codes and scales of all rows by code(row, k) and scale(row), and the bounds.
template <class W, class Code, class Scale>
Aligned<unsigned char> split_head(std::size_t rows, Code code, Scale scale) {
  constexpr std::size_t K = W::kColumns;
  constexpr CodedFormat kFormat = coded_format(W::kKind);
  Aligned<unsigned char> data(W::bytes);
  for (std::size_t row = 0; row < rows; ++row) {
    std::uint8_t* const panel = data.data() + row / kPanelRows * W::kPanelBytes;
    for (std::size_t k = 0; k < K; ++k)
      coded_set_code(kFormat, panel, K, row % kPanelRows, k, code(row, k));
    for (std::size_t g = 0; g < ceil_div(K, kFormat.block); ++g)
      coded_set_group(kFormat, panel, K, row % kPanelRows, g, scale(row), 0);
  }
  for (std::size_t panel = 0; panel < W::kPanels; ++panel)
    split_set_bounds(kFormat, data.data() + panel * W::kPanelBytes, K);
  return data;
}

struct Chosen {
  Choice choice;
  std::uint32_t index;  // of the whole product
  float logit;
};

template <std::size_t N, class W, class Source>
Chosen choose(const unsigned char* data, const Source& source, std::uint32_t threads) {
  const TestRun run = make_run(1, threads);
  Aligned<float> logits(N);
  run_linear(run, source, W{data}, Store<N>{logits.data()});
  Chosen chosen{};
  Aligned<float> greatest(N);
  run_linear(run, source, W{data}, Choose<N>{&chosen.choice, greatest.data()});
  chosen.index = argmax<N>(logits.data());
  chosen.logit = logits[chosen.index];
  return chosen;
}

void expect_equal(const Chosen& chosen) {
  EXPECT_EQ(chosen.choice.index, chosen.index);
  const float logit = std::isnan(chosen.logit) ? -kInfinity : chosen.logit;
  EXPECT_EQ(bits_of(chosen.choice.logit), bits_of(logit));
}

/// Codes as those of rounded weights: most are small.
int bell(std::uint64_t seed, std::size_t row, std::size_t k) {
  const std::uint64_t word = packing::mixed(seed, row * 4096 + k);
  const int sum = static_cast<int>((word & 31) + (word >> 8 & 31) + (word >> 16 & 31));
  return std::min(std::max(sum - 46, -32), 31);
}

/// At most `most` percent of the panels are to be computed.
template <std::size_t N, std::size_t K, Basis basis>
void expect_choices(std::uint64_t seed, std::size_t most) {
  using W = Weight<coded_weight(kSplitSixBits), packed_rows(N), K, basis>;
  const auto data = split_head<W>(
      N, [&](std::size_t row, std::size_t k) { return bell(seed, row, k); },
      [&](std::size_t row) {
        return f16_to_f32(f32_to_f16(0.01f + 0.005f * packing::random_float(seed, row)));
      });
  std::size_t panels = 0, of_all = 0;
  for (std::size_t trial = 0; trial < 6; ++trial) {
    // In most trials one row is like the input, as the likely token's is in a trained model.
    auto x = random_floats(K, seed + 100 + trial, 3);
    for (std::size_t k = 0; k < K && trial > 2; ++k)
      x[k] += 0.5f * static_cast<float>(bell(seed, (trial * 97) % N, k));
    for (const std::uint32_t threads : {1u, 3u}) {
      const Chosen chosen = choose<N, W>(data.data(), Rows<K>{x.data()}, threads);
      expect_equal(chosen);
      panels += chosen.choice.panels;
      of_all += panel_count(N);
    }
  }
  EXPECT_LT(panels, of_all * most / 100) << "rows can be left out";
}

TEST(ChooseTest, IsTheFirstMaximumOfTheWholeProduct) {
  expect_choices<1000, 64, Basis::kPlain>(1, 30);
  expect_choices<1003, 77, Basis::kPlain>(2, 30);
  expect_choices<1500, 288, Basis::kHadamard>(3, 60);
  expect_choices<2051, 640, Basis::kPlain>(4, 50);
}

TEST(ChooseTest, NormsAndOneRowAreAsInTheWholeProduct) {
  constexpr std::size_t N = 1, K = 96;
  using W = Weight<coded_weight(kSplitSixBits), packed_rows(N), K>;
  const auto data = split_head<W>(
      N, [](std::size_t, std::size_t k) { return static_cast<int>(k % 64) - 32; },
      [](std::size_t) { return 0.5f; });
  const auto x = random_floats(K, 7, 3), weight = random_floats(K, 8);
  const RmsNorm<K> source{x.data(), weight.data(), 1e-5f};
  const Chosen chosen = choose<N, W>(data.data(), source, 1);
  expect_equal(chosen);
  EXPECT_EQ(chosen.choice.panels, 1u);
}

/// Rows whose logits differ by their lower bits alone, equal rows, of several workers, and rows of
/// the padding.
TEST(ChooseTest, EqualLogitsGiveTheFirst) {
  constexpr std::size_t N = 1003, K = 320;
  using W = Weight<coded_weight(kSplitSixBits), packed_rows(N), K>;
  Aligned<float> ones(K), minus_ones(K);
  for (std::size_t k = 0; k < K; ++k) {
    ones[k] = 1;
    minus_ones[k] = -1;
  }
  for (const std::size_t best : {0u, 7u, 8u, 533u, 1002u}) {
    const auto data = split_head<W>(
        N,
        [&](std::size_t row, std::size_t k) {
          return row >= best && row % 5 == best % 5 && k == 3 ? 9 : 8;
        },
        [](std::size_t) { return 0.25f; });
    for (const std::uint32_t threads : {1u, 2u, 4u}) {
      const TestRun run = make_run(1, threads);
      ASSERT_EQ(workers_for(&run, W::bytes, 1), threads);
      const Chosen chosen = choose<N, W>(data.data(), Rows<K>{ones.data()}, threads);
      expect_equal(chosen);
      EXPECT_EQ(chosen.choice.index, best);
    }
    // All logits are negative: the zeros of the padding are no rows.
    expect_equal(choose<N, W>(data.data(), Rows<K>{minus_ones.data()}, 1));
  }
}

/// All logits are negative, so the padding, whose bounds are 0, would be the likeliest panel.
TEST(ChooseTest, PaddingIsNoCandidate) {
  constexpr std::size_t N = 1001, K = 128;
  using W = Weight<coded_weight(kSplitSixBits), packed_rows(N), K>;
  const auto data = split_head<W>(
      N, [](std::size_t row, std::size_t) { return row == 500 ? -5 : -20; },
      [](std::size_t) { return 0.5f; });
  Aligned<float> ones(K);
  for (std::size_t k = 0; k < K; ++k) ones[k] = 1;
  for (const std::uint32_t threads : {1u, 2u}) {
    const Chosen chosen = choose<N, W>(data.data(), Rows<K>{ones.data()}, threads);
    expect_equal(chosen);
    EXPECT_EQ(chosen.choice.panels, 1u);
  }
}

TEST(ChooseTest, InfiniteTinyAndMissingNumbers) {
  constexpr std::size_t N = 200, K = 320;
  using W = Weight<coded_weight(kSplitSixBits), packed_rows(N), K>;
  for (const float scale : {0x1p-24f, 0.01f, 65504.0f}) {
    const auto data = split_head<W>(
        N, [](std::size_t row, std::size_t k) { return bell(5, row, k); },
        [&](std::size_t) { return scale; });
    for (const float size : {0.0f, 0x1p-120f, 0x1p-80f, 1e-10f, 1e10f, 1e30f, 3e38f}) {
      auto x = random_floats(K, 9, size);
      expect_equal(choose<N, W>(data.data(), Rows<K>{x.data()}, 2));
      x[300] = kInfinity;
      expect_equal(choose<N, W>(data.data(), Rows<K>{x.data()}, 2));
      x[3] = std::numeric_limits<float>::quiet_NaN();
      expect_equal(choose<N, W>(data.data(), Rows<K>{x.data()}, 2));
    }
  }
}

/// A later row with a smaller sum of upper bits has the largest logit: its lower bits have all
/// signs of the input and reach the bound.
TEST(ChooseTest, LowerBitsDecide) {
  constexpr std::size_t N = 2000, K = 64;
  using W = Weight<coded_weight(kSplitSixBits), packed_rows(N), K>;
  const auto code = [](std::size_t row, std::size_t k) {
    if (row == 0) return 8;  // lower bits 0, in all 64: 512
    if (row != 1500) return 0;
    return k == 0 ? 15 : k <= 16 ? 11 : 7;  // lower bits 3: 15 + 16 * 11 + 47 * 7 = 520
  };
  const auto data = split_head<W>(N, code, [](std::size_t) { return 0.5f; });
  Aligned<float> ones(K);
  for (std::size_t k = 0; k < K; ++k) ones[k] = 1;
  const Chosen chosen = choose<N, W>(data.data(), Rows<K>{ones.data()}, 1);
  expect_equal(chosen);
  EXPECT_EQ(chosen.choice.index, 1500u);
  EXPECT_LT(chosen.choice.panels, 20u);
}

/// The greatest logit that a row may have, as the first pass computes it, beside its logit: where
/// the lower bits are those of the input they are almost equal, else it is greater.
TEST(ChooseTest, TheGreatestLogitIsAlmostReached) {
  constexpr std::size_t N = kPanelRows, K = 640;
  using W = Weight<coded_weight(kSplitSixBits), N, K>;
  constexpr CodedFormat kFormat = coded_format(W::kKind);
  const auto code = [](std::size_t row, std::size_t k) {
    const std::uint64_t word = packing::mixed(row, k);
    return static_cast<int>(word % 16) * 4 - 32 + ((word & 16) != 0 ? 3 : 0);
  };
  const auto data = split_head<W>(N, code, [](std::size_t) { return 0.5f; });
  for (std::size_t like = 0; like < N; ++like) {
    Aligned<float> x(K);
    for (std::size_t k = 0; k < K; ++k) x[k] = (code(like, k) & 3) == 3 ? 0.25f : -0.25f;
    const Rows<K> source{x.data()};
    Aligned<float> logits(N);
    run_linear(make_run(1, 1), source, W{data.data()}, Store<N>{logits.data()});
    Aligned<unsigned char> area(linear_input_bytes(W::kKind, K, 1));
    const ChooseStage<Rows<K>, W, N> stage{source, W{data.data()}, nullptr, area.data(), nullptr};
    stage.prepare(0);
    const Quantized quantized = quantized_at<K>(stage.input(0), 1);
    Aligned<float> quarters(N), greatest(N);
    upper_panels_gemv<kFormat, K, 1>(data.data(), 0, quantized, quarters.data());
    const float norm = activation_norm<K>(quantized);
    store(greatest.data(), logit_upper_bounds<kFormat, K>(data.data(), quarters.data(), norm));
    // What the lower bits add in the best case: 0.5 * 1.5 * 0.25 * 640.
    for (std::size_t row = 0; row < N; ++row)
      EXPECT_GE(greatest[row], logits[row] + (row == like ? 0 : 60)) << row;
    EXPECT_LE(greatest[like], logits[like] + 120 * 0.001f);
  }
}

/// The bound is not less than any difference that occurs, and not much more than the greatest:
/// where the lower bits have the signs of the activations, it is nearly reached.
TEST(ChooseTest, BoundsAreReached) {
  constexpr std::size_t K = 256;
  constexpr CodedFormat kFormat = kSplitSixBits;
  Aligned<std::uint8_t> panel(coded_panel_bytes(kFormat, K));
  for (std::size_t row = 0; row < kPanelRows; ++row) {
    for (std::size_t k = 0; k < K; ++k)
      coded_set_code(kFormat, panel.data(), K, row, k, k % 2 == 0 ? 3 : 0);
    for (std::size_t g = 0; g < K / 32; ++g)
      coded_set_group(kFormat, panel.data(), K, row, g, 0.125f, 0);
  }
  // Codes of 3 and 0 are 1.5 from the middle; 256 of them times 1 and -1.
  const double difference = 0.125 * 1.5 * 256, norm = std::sqrt(256.0);
  const double bound = double{split_bound(kFormat, panel.data(), K, 0)} * norm;
  EXPECT_GE(bound, difference);
  EXPECT_LE(bound, difference * 1.001);
}

}  // namespace
}  // namespace llmc::test

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "harness.h"

namespace llmc::test {
namespace {

constexpr std::size_t kLayers = 2, kSourceLayer = 1;

constexpr std::size_t kMaxRows = 1050;

/// Queries, and keys and values of a source, f32[2][kv_heads][source][head_dim], and the state with
/// them in layer kSourceLayer. The rest of the state is NaN.
template <std::size_t kHeads, std::size_t kKvHeads, std::size_t kHeadDim,
          KvFormats kFormats = KvFormats{}>
struct SourceCase {
  static constexpr std::size_t kRow = kHeads * kHeadDim, kHalfRow = kKvHeads * kHeadDim;
  using Shape = SourceShape<kHeads, kKvHeads, kHeadDim, kMaxRows, kLayers, kFormats>;
  static constexpr std::size_t kLayerBytes = Shape::kLayerBytes;

  SourceCase(std::size_t rows, std::size_t source, std::uint32_t seed = 1)
      : tokens(rows),
        keys(source),
        q(random_floats(rows * kRow, seed, 2)),
        x(random_floats(2 * source * kHalfRow, seed + 1, 2)),
        state(kLayers * kLayerBytes, 0xff) {
    const TestRun run = make_run(1, 2);
    source_store<Shape>({&run, static_cast<std::uint32_t>(source), nullptr}, x.data(),
                        state.data() + kSourceLayer * kLayerBytes);
  }

  template <class Rule = AttentionRule<>>
  static Aligned<float> attend(const llmc_run& run, float scale, const Aligned<float>& queries,
                               float cap = 0) {
    Aligned<float> out(queries.size());
    Aligned<unsigned char> work(attention_work_bytes(kHeads, kKvHeads, kHeadDim, kMaxRows,
                                                     run.count, run.threads, kFormats));
    attention<Shape, Rule>({&run, run.count, work.data()}, kSourceLayer, scale, queries.data(),
                           out.data(), cap);
    return out;
  }

  template <class Rule = AttentionRule<>>
  Aligned<float> attend(std::uint32_t threads, float scale, float cap = 0) {
    TestRun run = make_run(static_cast<std::uint32_t>(tokens), threads);
    run.segment().source = state.data();
    run.segment().source_rows = static_cast<std::uint32_t>(keys);
    return attend<Rule>(run, scale, q, cap);
  }

  /// `cap` is the softcap; 0: none.
  std::vector<double> reference(std::size_t row, std::size_t head, float scale,
                                double cap = 0) const {
    const std::size_t kv = head / (kHeads / kKvHeads);
    const float* const key = x.data() + kv * keys * kHeadDim;
    const float* const value = key + kKvHeads * keys * kHeadDim;
    std::vector<double> p(keys), out(kHeadDim);
    double largest = -INFINITY, sum = 0;
    for (std::size_t j = 0; j < keys; ++j) {
      for (std::size_t d = 0; d < kHeadDim; ++d)
        p[j] += static_cast<double>(q[row * kRow + head * kHeadDim + d]) * key[j * kHeadDim + d];
      p[j] *= scale;
      if (cap > 0) p[j] = cap * std::tanh(p[j] / cap);
      largest = std::max(largest, p[j]);
    }
    for (double& each : p) sum += each = std::exp(each - largest);
    for (std::size_t j = 0; j < keys; ++j)
      for (std::size_t d = 0; d < kHeadDim; ++d) out[d] += p[j] / sum * value[j * kHeadDim + d];
    return out;
  }

  std::size_t tokens, keys;
  Aligned<float> q, x;
  Aligned<unsigned char> state;
};

template <std::size_t kHeads, std::size_t kKvHeads, std::size_t kHeadDim,
          KvFormats kFormats = KvFormats{}, class Rule = AttentionRule<>>
void expect_reference(std::size_t rows, std::size_t source, double error = 2e-5, float cap = 0) {
  SourceCase<kHeads, kKvHeads, kHeadDim, kFormats> test(rows, source);
  const Aligned<float> out = test.template attend<Rule>(3, 0.25f, cap);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t head = 0; head < kHeads; ++head) {
      const std::vector<double> expected = test.reference(row, head, 0.25f, cap);
      for (std::size_t d = 0; d < kHeadDim; ++d)
        ASSERT_NEAR(out[(row * kHeads + head) * kHeadDim + d], expected[d], error)
            << "source of " << source << ", row " << row << ", head " << head << ", " << d;
    }
  }
  for (std::uint32_t threads = 1; threads <= 4; ++threads)
    EXPECT_EQ(test.template attend<Rule>(threads, 0.25f, cap), out) << threads << " threads";
}

TEST(CrossAttention, MatchesTheReferenceForAnyNumberOfKeys) {
  for (const std::size_t source : {1, 7, 8, 63, 64, 65, 128, 200, 513, 1050})
    expect_reference<4, 4, 16>(3, source);
}

TEST(CrossAttention, SharesHeadsAndHasAnyHeadDim) {
  expect_reference<6, 2, 20>(5, 70);
  expect_reference<4, 1, 8>(1, 70);
  expect_reference<2, 2, 3>(2, 9);
}

TEST(CrossAttention, SourcesAreStoredInAnyFormat) {
  expect_reference<4, 2, 16, {KvFormat::kF16, KvFormat::kF16}>(3, 70, 2e-3);
  expect_reference<4, 2, 20, {KvFormat::kInt8, KvFormat::kInt8}>(30, 530, 3e-2);
  expect_reference<2, 2, 16, {KvFormat::kF16, KvFormat::kFp8}>(1, 9, 2e-1);
}

TEST(CrossAttention, ScoresAreCapped) {
  using Rule = AttentionRule</*window=*/0, /*capped=*/true>;
  expect_reference<4, 2, 16, KvFormats{}, Rule>(3, 70, 2e-5, 0.75f);
  SourceCase<4, 2, 16> test(3, 70);
  EXPECT_NE(test.attend<Rule>(1, 0.25f, 0.75f), test.attend(1, 0.25f));
}

TEST(CrossAttention, DividesAShortSourceAmongTheWorkers) {
  using Case = SourceCase<16, 16, 64, KvFormats{KvFormat::kF16, KvFormat::kF16}>;
  Case test(1, 128);
  TestRun run = make_run(1, 8);
  run.segment().source = test.state.data();
  run.segment().source_rows = 128;
  std::uint32_t workers = 0;
  run.user = &workers;
  run.parallel_for = [](void* user, void (*fn)(void*, std::uint32_t), void* arg, std::uint32_t n) {
    *static_cast<std::uint32_t*>(user) = n;
    for (std::uint32_t i = 0; i < n; ++i) fn(arg, i);
  };
  EXPECT_EQ(Case::attend(run, 0.25f, test.q), test.attend(1, 0.25f));
  EXPECT_EQ(workers, 8u);
}

TEST(CrossAttention, EachSegmentHasItsOwnSource) {
  using Case = SourceCase<4, 2, 16>;
  const auto expect_alone = [](const std::vector<std::array<std::uint32_t, 2>>& parts) {
    std::vector<Case> cases;
    std::vector<llmc_segment> segments;
    std::uint32_t rows = 0;
    for (const auto& [count, source] : parts) {
      cases.emplace_back(count, source, rows + 1);
      segments.push_back({nullptr, rows, count, 0, 0, nullptr, nullptr, source, 0});
      rows += count;
    }
    Aligned<float> q(rows * Case::kRow), alone(rows * Case::kRow);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      segments[i].source = cases[i].state.data();
      const std::size_t first = segments[i].row * Case::kRow;
      const Aligned<float> rows_alone = cases[i].attend(1, 0.25f);
      std::copy_n(cases[i].q.data(), cases[i].q.size(), q.data() + first);
      std::copy_n(rows_alone.data(), rows_alone.size(), alone.data() + first);
    }
    for (std::uint32_t threads = 1; threads <= 4; ++threads) {
      const TestRun run(threads, segments);
      EXPECT_EQ(Case::attend(run, 0.25f, q), alone) << threads << " threads";
    }
  };
  expect_alone({{1, 70}, {1, 3}, {1, 1}, {1, 200}});  // a batch
  expect_alone({{5, 64}, {1, 9}, {3, 130}});
}

TEST(CrossAttention, LargeScoresDoNotOverflow) {
  SourceCase<1, 1, 8> test(1, 130);
  for (std::size_t i = 0; i < test.q.size(); ++i) test.q[i] = 1e4f;
  const Aligned<float> out = test.attend(1, 1.0f);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_TRUE(std::isfinite(out[i])) << i;
}

}  // namespace
}  // namespace llmc::test

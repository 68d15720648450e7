#include "llmc/kernels/attention.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <memory>

#include "harness.h"
#include "reference_cache.h"

namespace llmc::test {
namespace {

constexpr std::size_t kLayer = 1;

constexpr float kCap = 1.5f;

/// A sequence's q, k, v for one layer, and attention over it in chunks of any size.
template <class Shape, class Rule = AttentionRule<>>
struct Sequence {
  explicit Sequence(std::size_t tokens, std::uint64_t seed = 0)
      : tokens(tokens),
        q(random_floats(tokens * Shape::kHeads * Shape::kHeadDim, 10 * seed + 1, 2)),
        k(random_floats(tokens * Shape::kKvHeads * Shape::kHeadDim, 10 * seed + 2, 2)),
        v(random_floats(tokens * Shape::kKvHeads * Shape::kHeadDim, 10 * seed + 3)),
        bias(random_floats(Shape::kHeads * (tokens + kMoreColumns), 10 * seed + 4, 3)),
        sinks(random_floats(Shape::kHeads, 10 * seed + 5, 6)),
        kept_k(kept(Shape::kFormats.keys, true, k)),
        kept_v(kept(Shape::kFormats.values, false, v)) {}

  /// What the cache makes of them.
  static std::vector<double> kept(KvFormat format, bool keys, const Aligned<float>& x) {
    std::vector<double> result;
    for (std::size_t row = 0; row < x.size(); row += Shape::kHeadDim) {
      for (const Kept& number : reference_kept(format, keys, x.data() + row, Shape::kHeadDim)) {
        result.push_back(number.value());
      }
    }
    return result;
  }

  Aligned<float> attend(std::size_t chunk, std::uint32_t threads, float scale) const {
    Cache<Shape> cache(tokens);
    constexpr std::size_t kQ = Shape::kHeads * Shape::kHeadDim;
    constexpr std::size_t kKv = Shape::kKvHeads * Shape::kHeadDim;
    Aligned<float> out(tokens * kQ);
    Aligned<unsigned char> work(
        attention_work_bytes(Shape::kHeads, Shape::kKvHeads, Shape::kHeadDim, tokens, chunk,
                             threads, Shape::kFormats),
        0xff);
    for (std::size_t at = 0; at < tokens; at += chunk) {
      const auto count = static_cast<std::uint32_t>(std::min(chunk, tokens - at));
      TestRun run = make_run(count, threads, static_cast<std::uint32_t>(at));
      run.segment().blocks = cache.blocks();
      const KernelContext context{&run, count, work.data()};
      kv_store<Shape>(context, kLayer, k.data() + at * kKv, v.data() + at * kKv);
      attention<Shape, Rule>(context, kLayer, scale, q.data() + at * kQ, out.data() + at * kQ, kCap,
                             {bias.data(), tokens + kMoreColumns, sinks.data()});
    }
    return out;
  }

  std::vector<double> reference(std::size_t t, std::size_t head, float scale) const {
    const std::size_t kv = head / Shape::kGroup;
    constexpr std::size_t D = Shape::kHeadDim;
    std::vector<double> p(t + 1), out(D);
    double largest = -INFINITY, sum = 0;
    std::size_t first = Rule::kWindow != 0 && t + 1 > Rule::kWindow ? t + 1 - Rule::kWindow : 0;
    if constexpr (Rule::kChunked) first = t - t % Rule::kWindow;
    for (std::size_t j = first; j <= t; ++j) {
      for (std::size_t d = 0; d < D; ++d) {
        p[j] += static_cast<double>(q[(t * Shape::kHeads + head) * D + d]) *
                kept_k[(j * Shape::kKvHeads + kv) * D + d];
      }
      p[j] *= scale;
      if (Rule::kCapped) p[j] = kCap * std::tanh(p[j] / kCap);
      const std::size_t columns = tokens + kMoreColumns;
      if (Rule::kBias == ScoreBias::kByDistance) p[j] += bias[(head + 1) * columns - 1 - (t - j)];
      if (Rule::kBias == ScoreBias::kByKey) p[j] += bias[head * columns + j];
      largest = std::max(largest, p[j]);
    }
    if (Rule::kSinks) {
      largest = std::max(largest, static_cast<double>(sinks[head]));
      sum = std::exp(static_cast<double>(sinks[head]) - largest);
    }
    for (std::size_t j = first; j <= t; ++j) sum += p[j] = std::exp(p[j] - largest);
    for (std::size_t j = first; j <= t; ++j) {
      for (std::size_t d = 0; d < D; ++d) {
        out[d] += p[j] / sum * kept_v[(j * Shape::kKvHeads + kv) * D + d];
      }
    }
    return out;
  }

  static constexpr std::size_t kMoreColumns = 3;  // of the bias than tokens
  std::size_t tokens;
  Aligned<float> q, k, v, bias, sinks;
  std::vector<double> kept_k, kept_v;
};

/// Whether this program tests all rules, formats and block sizes. Under an emulator each costs
/// seconds of running; one of each kind tests how loads, stores and registers meet the rules.
constexpr bool kAll = !kEmulated;

using enum KvFormat;
constexpr KvFormats kHalves = formats_of(kF16, kF16), kBytes = formats_of(kInt8, kInt8);

template <class Shape>
class AttentionTest : public testing::Test {};

// Each costs seconds of compiling on each target; what f32 and the other formats share is in one of
// them.
using AttentionShapes =
    testing::Types<AttentionShape<1, 1, 8, 8, 2>, AttentionShape<2, 1, 5, 24, 2>,
                   AttentionShape<32, 1, 16, 128, 2>, AttentionShape<4, 4, 48, 32, 2, kHalves>,
                   AttentionShape<6, 2, 20, 16, 2, kBytes>,
                   AttentionShape<7, 1, 64, 64, 2, formats_of(kInt8, kFp8)>,
                   // Prompts with more than 128 keys prefetch. Left out only under emulators of
                   // targets that do not.
                   std::conditional_t<kPrefetches || !kEmulated, AttentionShape<8, 1, 256, 32, 2>,
                                      AttentionShape<8, 1, 8, 32, 2>>>;
TYPED_TEST_SUITE(AttentionTest, AttentionShapes);

TYPED_TEST(AttentionTest, IsSoftmaxOfScaledScores) {
  const Sequence<TypeParam> sequence(150);
  // Scores of wide heads are no larger than those of others, for the same rounding errors.
  const float scale = TypeParam::kHeadDim > 128 ? 0.1f : 0.3f;
  const Aligned<float> out = sequence.attend(37, 2, scale);
  for (std::size_t t = 0; t < sequence.tokens; ++t) {
    for (std::size_t h = 0; h < TypeParam::kHeads; ++h) {
      const std::vector<double> want = sequence.reference(t, h, scale);
      for (std::size_t d = 0; d < TypeParam::kHeadDim; ++d) {
        ASSERT_NEAR(out[(t * TypeParam::kHeads + h) * TypeParam::kHeadDim + d], want[d], 3e-6)
            << t << ' ' << h << ' ' << d;
      }
    }
  }
}

TYPED_TEST(AttentionTest, BitsDoNotDependOnChunksOrThreads) {
  const Sequence<TypeParam> sequence(140);
  const Aligned<float> want = sequence.attend(1, 1, 0.25f);
  std::uint32_t threads = 0;
  for (const std::size_t chunk : {1, 2, 7, 32, 64, 100, 140}) {
    if (kEmulated && (chunk == 2 || chunk == 32 || chunk == 140)) continue;
    for (int i = 0; i < (kEmulated ? 1 : 2); ++i) {
      threads = threads % 4 + 1;
      EXPECT_TRUE(sequence.attend(chunk, threads, 0.25f) == want) << chunk << ' ' << threads;
    }
  }
}

TYPED_TEST(AttentionTest, LaterTokensOfTheChunkDoNotMatter) {
  constexpr std::size_t kRow = TypeParam::kHeads * TypeParam::kHeadDim;
  constexpr std::size_t kKv = TypeParam::kKvHeads * TypeParam::kHeadDim;
  Sequence<TypeParam> sequence(70);
  const Aligned<float> want = sequence.attend(70, 1, 0.25f);
  for (const std::size_t from : {66u, 43u, 5u, 1u}) {
    for (std::size_t i = from * kKv; i < sequence.tokens * kKv; ++i) {
      sequence.k[i] = NAN;
      sequence.v[i] = i % 2 == 0 ? INFINITY : NAN;
    }
    const Aligned<float> got = sequence.attend(70, 1, 0.25f);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), from * kRow * sizeof(float)), 0) << from;
  }
}

/// Long enough for three splits of the cache, the third a short one; an emulator has heads that are
/// less than a register.
constexpr std::size_t kLong = kEmulated ? 1030 : 1070, kLongDim = kEmulated ? 5 : 12;
/// Long enough for two splits, and for the widest window.
constexpr std::size_t kRuleTokens = 650;
template <std::size_t block, KvFormats formats = KvFormats{}>
using LongShape = AttentionShape<4, 2, kLongDim, block, 2, formats>;

template <KvFormats formats>
void check_splits() {
  const Sequence<LongShape<32, formats>> sequence(kLong);
  const Aligned<float> want = sequence.attend(128, 1, 0.25f);
  EXPECT_TRUE(sequence.attend(1, 2, 0.25f) == want);
  if (!kEmulated) {
    EXPECT_TRUE(sequence.attend(3, 3, 0.25f) == want);
  }
  EXPECT_TRUE(sequence.attend(500, 2, 0.25f) == want);
  for (const std::size_t t : {511, 512, 513, 1023, 1024, static_cast<int>(kLong) - 1}) {
    const std::vector<double> exact = sequence.reference(t, 3, 0.25f);
    for (std::size_t d = 0; d < kLongDim; ++d)
      EXPECT_NEAR(want[(t * 4 + 3) * kLongDim + d], exact[d], 3e-6);
  }
}

TEST(AttentionLongTest, SplitsMergeTheSameHoweverTheyAreSpread) {
  if constexpr (kAll) check_splits<KvFormats{}>();
  check_splits<formats_of(kInt8, kFp8)>();  // shared with the next one
}

template <KvFormats formats>
void check_blocks() {
  constexpr std::size_t kTokens = kEmulated ? 530 : 700;  // more than a split
  const Aligned<float> want = Sequence<LongShape<32, formats>>(kTokens).attend(64, 2, 0.25f);
  EXPECT_TRUE((Sequence<LongShape<24, formats>>(kTokens).attend(64, 2, 0.25f)) == want);
  EXPECT_TRUE((Sequence<LongShape<256, formats>>(kTokens).attend(64, 2, 0.25f)) == want);
}
TEST(AttentionLongTest, BlockSizeDoesNotChangeBits) {
  if constexpr (kAll) check_blocks<KvFormats{}>();
  check_blocks<formats_of(kInt8, kFp8)>();
}

template <class Rule, KvFormats formats = KvFormats{}>
void check_rule() {
  const Sequence<LongShape<16, formats>, Rule> sequence(kRuleTokens);
  const float scale = 0.3f;
  const Aligned<float> want = sequence.attend(200, 1, scale);
  for (std::size_t t = 0; t < sequence.tokens; t += t < 70 ? 1 : 37) {
    const std::vector<double> exact = sequence.reference(t, t % 4, scale);
    for (std::size_t d = 0; d < kLongDim; ++d) {
      ASSERT_NEAR(want[(t * 4 + t % 4) * kLongDim + d], exact[d], 4e-6) << t << ' ' << d;
    }
  }
  EXPECT_TRUE(sequence.attend(61, 3, scale) == want);
  if (kEmulated) return;
  EXPECT_TRUE(sequence.attend(1, 4, scale) == want);
  EXPECT_TRUE(sequence.attend(kRuleTokens, 2, scale) == want);
  EXPECT_TRUE(sequence.attend(4, 3, scale) == want);
}

TEST(AttentionRuleTest, Windows) {
  if constexpr (kAll) {
    check_rule<AttentionRule<1>>();
    check_rule<AttentionRule<100>>();
    check_rule<AttentionRule<600>>();
  }
  check_rule<AttentionRule<100>, formats_of(kF16, kInt8)>();
}

TEST(AttentionRuleTest, Chunks) {
  if constexpr (kAll) {
    check_rule<AttentionRule<1, false, ScoreBias::kNone, false, true>>();
    check_rule<AttentionRule<24, false, ScoreBias::kNone, false, true>>();
  }
  check_rule<AttentionRule<600, true, ScoreBias::kNone, false, true>, formats_of(kF16, kInt8)>();
}

TEST(AttentionRuleTest, CappedScores) {
  if constexpr (kAll) check_rule<AttentionRule<0, true>>();
  check_rule<AttentionRule<90, true>>();
}

TEST(AttentionRuleTest, BiasByPosition) {
  check_rule<AttentionRule<0, false, ScoreBias::kByDistance>>();
  check_rule<AttentionRule<90, true, ScoreBias::kByKey>>();
}

TEST(AttentionRuleTest, Sinks) {
  check_rule<AttentionRule<90, false, ScoreBias::kByDistance, true>>();
}

TEST(AttentionRuleTest, KeysOutsideTheWindowAreNotRead) {
  // What lies before the window may be NaN: blocks of it may be given back.
  using Shape = AttentionShape<2, 1, 8, 8, 2>;
  constexpr std::uint32_t kPosition = 200;
  const auto k = random_floats(8, 1), q = random_floats(16, 2);
  Cache<Shape> cache(kPosition + 1);  // full of NaN
  TestRun run = make_run(1, 1, kPosition);
  run.segment().blocks = cache.blocks();
  Aligned<unsigned char> work(attention_work_bytes(2, 1, 8, kPosition + 1, 1, 1));
  const KernelContext context{&run, 1, work.data()};
  for (std::uint32_t p = kPosition - 4; p <= kPosition; ++p) {
    run.segment().position = p;
    kv_store<Shape>(context, kLayer, k.data(), k.data());
  }
  Aligned<float> out(16);
  attention<Shape, AttentionRule<5>>(context, kLayer, 1.0f, q.data(), out.data());
  for (std::size_t d = 0; d < 8; ++d) EXPECT_NEAR(out[d], k[d], 1e-6);
}

/// Parts of several sequences in one run: rows of consecutive segments.
template <class Shape>
void check_segments(const std::vector<std::array<std::uint32_t, 2>>& parts) {
  constexpr std::size_t kQ = Shape::kHeads * Shape::kHeadDim;
  constexpr std::size_t kKv = Shape::kKvHeads * Shape::kHeadDim;
  std::vector<std::unique_ptr<Sequence<Shape>>> sequences;
  std::vector<Aligned<float>> want;
  std::uint32_t rows = 0, longest = 0;
  for (const auto& [before, count] : parts) {
    sequences.push_back(std::make_unique<Sequence<Shape>>(before + count, rows + 1));
    want.push_back(sequences.back()->attend(before + count, 1, 0.25f));
    rows += count;
    longest = std::max(longest, before + count);
  }
  for (const std::uint32_t threads : {1u, 2u, 3u, 4u}) {
    std::vector<std::unique_ptr<Cache<Shape>>> caches;
    std::vector<llmc_segment> segments;
    Aligned<float> q(rows * kQ), k(rows * kKv), v(rows * kKv), out(rows * kQ);
    Aligned<unsigned char> work(
        attention_work_bytes(Shape::kHeads, Shape::kKvHeads, Shape::kHeadDim, longest, rows,
                             threads, Shape::kFormats),
        0xff);
    std::uint32_t row = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto [before, count] = parts[i];
      const Sequence<Shape>& s = *sequences[i];
      caches.push_back(std::make_unique<Cache<Shape>>(before + count));
      segments.push_back({caches.back()->blocks(), row, count, before, 0, nullptr, nullptr, 0, 0});
      if (before > 0) {
        TestRun past = make_run(before, 1);
        past.segment().blocks = caches.back()->blocks();
        kv_store<Shape>(KernelContext{&past, before, nullptr}, kLayer, s.k.data(), s.v.data());
      }
      std::copy_n(s.q.data() + before * kQ, count * kQ, q.data() + row * kQ);
      std::copy_n(s.k.data() + before * kKv, count * kKv, k.data() + row * kKv);
      std::copy_n(s.v.data() + before * kKv, count * kKv, v.data() + row * kKv);
      row += count;
    }
    const TestRun run(threads, segments);
    const KernelContext context{&run, rows, work.data()};
    kv_store<Shape>(context, kLayer, k.data(), v.data());
    attention<Shape>(context, kLayer, 0.25f, q.data(), out.data());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto [before, count] = parts[i];
      EXPECT_EQ(std::memcmp(out.data() + segments[i].row * kQ, want[i].data() + before * kQ,
                            count * kQ * sizeof(float)),
                0)
          << threads << ' ' << i;
    }
  }
}

TYPED_TEST(AttentionTest, SequencesOfOneRunDoNotMeet) {
  check_segments<TypeParam>({{70, 1}, {3, 1}, {0, 1}, {129, 1}});
  check_segments<TypeParam>({{5, 30}, {64, 1}, {0, 7}, {20, 50}});
}

TEST(AttentionLongTest, SequencesOfOneRunDoNotMeet) {
  check_segments<LongShape<16>>({{kLong - 1, 1}, {600, 1}, {7, 1}});
}

TEST(AttentionLongTest, LargeScoresDoNotOverflow) {
  const Sequence<LongShape<16>> sequence(600);
  const Aligned<float> out = sequence.attend(64, 1, 300.0f);
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_TRUE(std::abs(out[i]) <= 1.0001f);
}

}  // namespace
}  // namespace llmc::test

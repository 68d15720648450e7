// Each stage by itself against what was worked out by hand.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "tests/runtime/core/sampling.h"

namespace llmc::core {
namespace {

const std::vector<double> kTwelfths = {1.0 / 12, 4.0 / 12, 2.0 / 12, 5.0 / 12};

TEST(TopK, KeepsTheMostLikelyInOrder) {
  const auto keep = [](std::int32_t k) {
    return kept_by(LLMC_SAMPLER_TOP_K, kTwelfths, sampling([&](auto& s) { s.top_k = k; }));
  };
  EXPECT_EQ(keep(1), (Ids{3}));
  EXPECT_EQ(keep(3), (Ids{3, 1, 2}));
  EXPECT_EQ(keep(4).size(), 4u);
  EXPECT_EQ(keep(100).size(), 4u);
  EXPECT_EQ(keep(0), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(keep(-1), (Ids{0, 1, 2, 3}));
}

TEST(TopP, KeepsTheFewestThatReachP) {
  const auto keep = [](float p) {
    return kept_by(LLMC_SAMPLER_TOP_P, kTwelfths, sampling([&](auto& s) { s.top_p = p; }));
  };
  EXPECT_EQ(keep(0.01f), (Ids{3}));
  EXPECT_EQ(keep(0.40f), (Ids{3}));
  EXPECT_EQ(keep(0.43f), (Ids{3, 1}));
  EXPECT_EQ(keep(0.74f), (Ids{3, 1}));
  EXPECT_EQ(keep(0.76f), (Ids{3, 1, 2}));
  EXPECT_EQ(keep(0.95f), (Ids{3, 1, 2, 0}));
  EXPECT_EQ(keep(1.0f), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(keep(0.0f), (Ids{0, 1, 2, 3}));
}

TEST(TopP, SortsAsManyAsItNeeds) {
  std::vector<double> flat(1000);
  for (std::size_t i = 0; i < flat.size(); ++i) flat[i] = 1.0 + static_cast<double>(i) * 1e-3;
  const Ids kept = kept_by(LLMC_SAMPLER_TOP_P, flat, sampling([](auto& s) { s.top_p = 0.5f; }));
  double total = std::accumulate(flat.begin(), flat.end(), 0.0);
  double reached = 0.0;
  std::size_t expected = 0;
  while (reached < 0.5 * total) reached += flat[999 - expected++];
  ASSERT_NEAR(static_cast<double>(kept.size()), static_cast<double>(expected), 1.0);
  for (std::size_t i = 0; i < kept.size(); ++i)
    ASSERT_EQ(kept[i], 999 - static_cast<std::int32_t>(i));
}

TEST(MinP, KeepsWhatIsLikelyEnoughBesideTheBest) {
  const auto keep = [](float p) {
    return kept_by(LLMC_SAMPLER_MIN_P, kTwelfths, sampling([&](auto& s) { s.min_p = p; }));
  };
  EXPECT_EQ(keep(0.1f), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(keep(0.3f), (Ids{1, 2, 3}));
  EXPECT_EQ(keep(0.7f), (Ids{1, 3}));
  EXPECT_EQ(keep(0.9f), (Ids{3}));
  EXPECT_EQ(keep(5.0f), (Ids{3}));
  EXPECT_EQ(keep(0.0f), (Ids{0, 1, 2, 3}));
}

TEST(TfsZ, CutsWhereTheCurveNoLongerBends) {
  // Slopes 0.1, 0.1, 0.14, 0.02; bends 0, 0.04, 0.12: parts 0, 1/4, 3/4.
  const std::vector<double> curve = {0.06, 0.3, 0.4, 0.04, 0.2};
  const auto keep = [&](float z) {
    return kept_by(LLMC_SAMPLER_TFS_Z, curve, sampling([&](auto& s) { s.tfs_z = z; }));
  };
  EXPECT_EQ(keep(0.2f), (Ids{2}));
  EXPECT_EQ(keep(0.3f), (Ids{2, 1}));
  EXPECT_EQ(keep(0.99f), (Ids{2, 1}));
  EXPECT_EQ(keep(1.0f), (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(keep(0.0f), (Ids{0, 1, 2, 3, 4}));
  // The first bend has 3/4 here: at least one token stays.
  EXPECT_EQ(kept_by(LLMC_SAMPLER_TFS_Z, {0.5, 0.25, 0.15, 0.1},
                    sampling([](auto& s) { s.tfs_z = 0.1f; })),
            (Ids{0}));
  // A straight line: four bends of equal weight.
  EXPECT_EQ(kept_by(LLMC_SAMPLER_TFS_Z, {1.0 / 6, 1.0 / 6, 1.0 / 6, 1.0 / 6, 1.0 / 6, 1.0 / 6},
                    sampling([](auto& s) { s.tfs_z = 0.6f; })),
            (Ids{0, 1}));
  EXPECT_EQ(kept_by(LLMC_SAMPLER_TFS_Z, {0.3, 0.7}, sampling([](auto& s) { s.tfs_z = 0.1f; })),
            (Ids{0, 1}));
}

TEST(TypicalP, KeepsWhatSurprisesAsExpected) {
  // Surprises 1, 2, 3, 3 bits; expected 1.75: token 1 is nearest, then 0, then 2 and 3.
  const std::vector<double> halves = {0.5, 0.25, 0.125, 0.125};
  const auto keep = [&](float p) {
    return kept_by(LLMC_SAMPLER_TYPICAL_P, halves, sampling([&](auto& s) { s.typical_p = p; }));
  };
  EXPECT_EQ(keep(0.2f), (Ids{1}));
  EXPECT_EQ(keep(0.3f), (Ids{1, 0}));
  EXPECT_EQ(keep(0.7f), (Ids{1, 0}));
  EXPECT_EQ(keep(0.8f), (Ids{1, 0, 2}));
  EXPECT_EQ(keep(0.9f), (Ids{1, 0, 2, 3}));
  EXPECT_EQ(keep(1.0f), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(keep(0.0f), (Ids{0, 1, 2, 3}));
}

TEST(TypicalP, ImpossibleTokensComeLast) {
  const auto left = after_stage(LLMC_SAMPLER_TYPICAL_P, {-kInf, 1.0f, -kInf, 0.0f},
                                sampling([](auto& s) { s.typical_p = 0.99f; }));
  ASSERT_GE(left.size(), 2u);
  EXPECT_GT(left[0].logit, -kInf);
  EXPECT_GT(left[1].logit, -kInf);
}

TEST(Xtc, LeavesTheLeastLikelyOfTheTopChoices) {
  const std::vector<double> tenths = {0.1, 0.4, 0.2, 0.3};
  const auto keep = [&](float threshold, float probability = 1.0f) {
    Ids kept = kept_by(LLMC_SAMPLER_XTC, tenths, sampling([&](auto& s) {
                         s.xtc_threshold = threshold;
                         s.xtc_probability = probability;
                       }));
    std::sort(kept.begin(), kept.end());
    return kept;
  };
  EXPECT_EQ(keep(0.5f), (Ids{0, 1, 2, 3}));   // nothing is that likely
  EXPECT_EQ(keep(0.35f), (Ids{0, 1, 2, 3}));  // one is: it stays
  EXPECT_EQ(keep(0.25f), (Ids{0, 2, 3}));
  EXPECT_EQ(keep(0.15f), (Ids{0, 2}));
  EXPECT_EQ(keep(0.0f), (Ids{0}));
  EXPECT_EQ(keep(0.51f), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(keep(0.0f, 0.0f), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(kept_by(LLMC_SAMPLER_XTC, {1.0}, sampling([&](auto& s) { s.xtc_probability = 1.0f; })),
            (Ids{0}));
}

TEST(Xtc, HappensAsOftenAsItShould) {
  constexpr int kSeeds = 20000;
  int excluded = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const Ids kept = kept_by(LLMC_SAMPLER_XTC, {0.6, 0.4}, sampling([&](auto& s) {
                               s.seed = static_cast<std::uint64_t>(seed);
                               s.xtc_probability = 0.3f;
                               s.xtc_threshold = 0.1f;
                             }));
    excluded += kept.size() == 1;
  }
  EXPECT_NEAR(excluded, 0.3 * kSeeds, 5 * std::sqrt(0.3 * 0.7 * kSeeds));
}

TEST(Temperature, DividesOrLeavesTheBest) {
  const auto after = [](float temperature) {
    return after_stage(LLMC_SAMPLER_TEMPERATURE, {1.0f, 3.0f, 3.0f, -kInf},
                       sampling([&](auto& s) { s.temperature = temperature; }));
  };
  auto left = after(0.5f);
  ASSERT_EQ(ids_of(left), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(left[1].logit - left[0].logit, 4.0f);
  EXPECT_EQ(left[1].logit, left[2].logit);
  EXPECT_EQ(left[3].logit, -kInf);
  EXPECT_EQ(ids_of(after(0.0f)), (Ids{1}));
  EXPECT_EQ(ids_of(after(-1.0f)), (Ids{1}));
  EXPECT_EQ(after(1.0f)[0].logit, 1.0f);
}

std::vector<float> logits_after(std::uint8_t stage, const std::vector<float>& logits,
                                const llmc_sampling& parameters, const Ids& history,
                                const std::vector<Ids>& breakers = {}) {
  const auto left = after_stage(stage, logits, parameters, history, BreakerTable(breakers).table());
  std::vector<float> result;
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].id, static_cast<std::int32_t>(i));
    result.push_back(left[i].logit);
  }
  return result;
}

TEST(Penalties, LowerWhatWasSaid) {
  const std::vector<float> logits = {2.0f, -1.0f, 0.5f, -kInf};
  const auto after = [&](std::int32_t last_n, float repeat, float frequency, float presence,
                         const Ids& history = {2, 0, 1, 1, 3}) {
    return logits_after(LLMC_SAMPLER_PENALTIES, logits, sampling([&](auto& s) {
                          s.repeat_last_n = last_n;
                          s.repeat_penalty = repeat;
                          s.frequency_penalty = frequency;
                          s.presence_penalty = presence;
                        }),
                        history);
  };
  using Logits = std::vector<float>;
  EXPECT_EQ(after(4, 2.0f, 0.25f, 0.5f), (Logits{0.25f, -3.0f, 0.5f, -kInf}));
  EXPECT_EQ(after(-1, 2.0f, 0.0f, 0.0f), (Logits{1.0f, -2.0f, 0.25f, -kInf}));
  EXPECT_EQ(after(100, 2.0f, 0.0f, 0.0f), (Logits{1.0f, -2.0f, 0.25f, -kInf}));
  EXPECT_EQ(after(2, 0.0f, 0.5f, 0.0f), (Logits{2.0f, -1.5f, 0.5f, -kInf}));
  EXPECT_EQ(after(0, 2.0f, 0.5f, 0.5f), logits);
  EXPECT_EQ(after(5, 1.0f, 0.0f, 0.0f), logits);
  EXPECT_EQ(after(5, 2.0f, 1.0f, 1.0f, {}), logits);
  // For any parameters, some tokens stay possible and finite.
  const Logits extreme = after(-1, 3e38f, -3e38f, 3e38f);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isfinite(extreme[i])) << i;
  EXPECT_EQ(extreme[3], -kInf);
}

TEST(Dry, LowersWhatContinuesARepetition) {
  // a b c c b c y a b c: after "a b c" came c, after "b c" y (and c), after "c" also b.
  const Ids history = {0, 1, 2, 2, 1, 2, 3, 0, 1, 2};
  const auto after = [&](float base, std::int32_t allowed, std::int32_t last_n,
                         const std::vector<Ids>& breakers = {}, const Ids& said = {}) {
    return logits_after(LLMC_SAMPLER_DRY, {0, 0, 0, 0}, sampling([&](auto& s) {
                          s.dry_multiplier = 0.5f;
                          s.dry_base = base;
                          s.dry_allowed_length = allowed;
                          s.dry_penalty_last_n = last_n;
                        }),
                        said.empty() ? history : said, breakers);
  };
  using Logits = std::vector<float>;
  EXPECT_EQ(after(3, 2, -1), (Logits{0, 0, -1.5f, -0.5f}));
  EXPECT_EQ(after(3, 1, -1), (Logits{0, -0.5f, -4.5f, -1.5f}));
  EXPECT_EQ(after(3, 4, -1), (Logits{0, 0, 0, 0}));
  // Of the last seven tokens, c b c y a b c, only y came after "b c".
  EXPECT_EQ(after(3, 2, 7), (Logits{0, 0, 0, -0.5f}));
  EXPECT_EQ(after(3, 2, 5), (Logits{0, 0, 0, 0}));
  EXPECT_EQ(after(3, 2, 0), (Logits{0, 0, 0, 0}));
  EXPECT_EQ(after(0.5f, 2, -1), (Logits{0, 0, 0, 0}));
  // A breaker "a": only "b c" may be repeated; "b c" as a breaker: nothing.
  EXPECT_EQ(after(3, 2, -1, {{0}}), (Logits{0, 0, -0.5f, -0.5f}));
  EXPECT_EQ(after(3, 2, -1, {{1, 2}}), (Logits{0, 0, 0, 0}));
  EXPECT_EQ(after(3, 2, -1, {{1, 3}, {1, 0}}), (Logits{0, 0, -1.5f, -0.5f}));
  // A token that breaks alone is not lowered.
  EXPECT_EQ(after(3, 2, -1, {{3}}), (Logits{0, 0, -1.5f, 0}));
  // The exponent ends where a float's range does: ln(largest) / ln 1000 = 12.8.
  const Ids ones(50, 1);
  const Logits lowered = after(1000, 2, -1, {}, ones);
  EXPECT_FLOAT_EQ(lowered[1], -0.5e36f);
}

}  // namespace
}  // namespace llmc::core

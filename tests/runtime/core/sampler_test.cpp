#include "runtime/core/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "runtime/core/exact_exp.h"
#include "runtime/core/exact_log.h"
#include "runtime/core/philox.h"
#include "tests/runtime/core/sampling.h"

namespace llmc::core {
namespace {

TEST(Philox, KnownAnswers) {  // Random123's kat_vectors
  const auto words = [](PhiloxBlock b) {
    return std::vector<std::uint32_t>(std::begin(b.word), std::end(b.word));
  };
  EXPECT_EQ(words(philox4x32({{0, 0, 0, 0}}, 0)),
            (std::vector<std::uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(philox4x32({{~0u, ~0u, ~0u, ~0u}}, ~0ull)),
            (std::vector<std::uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      words(philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822ull)),
      (std::vector<std::uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, DrawsAreUniform) {
  std::vector<int> histogram(16);
  for (std::uint64_t position = 0; position < 16000; ++position) {
    const double u = uniform_draw(5, position, 0);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++histogram[static_cast<std::size_t>(u * 16)];
  }
  for (const int count : histogram) EXPECT_NEAR(count, 1000, 150);  // five standard deviations
  EXPECT_NE(uniform_draw(5, 1, 0), uniform_draw(6, 1, 0));
  EXPECT_NE(uniform_draw(5, 1, 0), uniform_draw(5, 1, 1));
  EXPECT_EQ(uniform_draw(5, 1, 0), uniform_draw(5, 1, 0));
}

TEST(ExactExp, AgreesWithLibm) {
  EXPECT_EQ(exact_exp(0.0), 1.0);
  EXPECT_EQ(exact_exp(-1e6), 0.0);
  EXPECT_EQ(exact_exp(-std::numeric_limits<double>::infinity()), 0.0);
  EXPECT_EQ(exact_exp(std::numeric_limits<double>::quiet_NaN()), 0.0);
  double worst = 0.0;
  for (double x = 0.0; x > -708.0; x -= 0.0137) {
    worst = std::max(worst, std::fabs(exact_exp(x) / std::exp(x) - 1.0));
  }
  EXPECT_LT(worst, 1e-14);
  EXPECT_GT(exact_exp(-708.0), 0.0);
  EXPECT_EQ(exact_exp(std::nextafter(-708.0, -709.0)), 0.0);
}

TEST(ExactExp, BlocksHaveTheSameBitsInOrder) {
  for (const std::uint32_t count : {0u, 1u, 63u, 64u, 65u, 129u}) {
    std::uint32_t next = 0;
    const auto x = [](std::uint32_t i) { return -0.37 * i * i; };
    each_exp(count, x, [&](std::uint32_t i, double power) {
      EXPECT_EQ(i, next++);
      EXPECT_EQ(power, exact_exp(x(i)));
    });
    EXPECT_EQ(next, count);
  }
}

TEST(ExactLog, AgreesWithLibm) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(exact_log(1.0), 0.0);
  EXPECT_EQ(exact_log(0.0), -kInfinity);
  EXPECT_EQ(exact_log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(exact_log(-1.0)));
  EXPECT_TRUE(std::isnan(exact_log(std::numeric_limits<double>::quiet_NaN())));
  double worst = 0.0;
  const auto check = [&](double x) {
    worst = std::max(worst, std::fabs(exact_log(x) / std::log(x) - 1.0));
  };
  for (double x = 5e-323; x < 1e308; x *= 1.0731) check(x);
  for (double x = 0.4; x < 3.0; x += 0.00037) check(x);
  for (double d = 0.1; d > 1e-15; d *= 0.7) check(1.0 + d), check(1.0 - d);
  EXPECT_LT(worst, 1e-14);
}

TEST(SelectBest, IsAPartialSort) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> logits(1 + random() % 200);
    for (float& logit : logits) logit = static_cast<float>(random() % 20);  // many equals
    auto entries = entries_of(logits);
    auto expected = entries;
    std::sort(expected.begin(), expected.end(), better);
    const std::uint32_t n = static_cast<std::uint32_t>(random() % (logits.size() + 2));
    select_best(entries.data(), static_cast<std::uint32_t>(entries.size()), n);
    for (std::uint32_t i = 0; i < std::min<std::size_t>(n, entries.size()); ++i)
      ASSERT_EQ(entries[i].id, expected[i].id);
    std::sort(entries.begin(), entries.end(), better);
    for (std::size_t i = 0; i < entries.size(); ++i) ASSERT_EQ(entries[i].id, expected[i].id);
  }
}

/// Share of each token over many positions.
std::vector<double> shares(const std::vector<float>& logits, const llmc_sampling& parameters) {
  constexpr int kDraws = 40000;
  std::vector<double> share(logits.size());
  for (int i = 0; i < kDraws; ++i) {
    std::int32_t token = -1;
    EXPECT_EQ(sampled(logits, parameters, static_cast<std::uint64_t>(i), token), LLMC_OK);
    share[static_cast<std::size_t>(token)] += 1.0 / kDraws;
  }
  return share;
}

TEST(SampleToken, FollowsTheDistribution) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.2f), std::log(0.3f),
                                     std::log(0.4f)};
  auto share = shares(logits, sampling([&](auto& s) {
                        s.temperature = 1.0f;
                        s.seed = 1;
                      }));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(share[i], 0.1 * (1.0 + double(i)), 0.012);
  // Temperature 1/2 squares the probabilities: 1 : 4 : 9 : 16.
  share = shares(logits, sampling([&](auto& s) {
                   s.temperature = 0.5f;
                   s.seed = 2;
                 }));
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(share[i], (1.0 + double(i)) * (1.0 + double(i)) / 30.0, 0.012);
  // top_k 3 leaves 2 : 3 : 4; top_p sees these: 4/9 < 0.5 keeps two, 3 : 4.
  share = shares(logits, sampling([&](auto& s) {
                   s.temperature = 1.0f;
                   s.top_k = 3;
                   s.top_p = 0.5f;
                   s.seed = 3;
                 }));
  EXPECT_EQ(share[0] + share[1], 0.0);
  EXPECT_NEAR(share[2], 3.0 / 7.0, 0.012);
  // Temperature comes last: min_p judges the distribution as the model gave it.
  share = shares(logits, sampling([&](auto& s) {
                   s.temperature = 100.0f;
                   s.min_p = 0.6f;
                   s.seed = 4;
                 }));
  EXPECT_EQ(share[0] + share[1], 0.0);
  EXPECT_NEAR(share[2], 0.5, 0.012);
}

TEST(SampleToken, GreedyTakesTheLowestIdAmongEquals) {
  std::int32_t token = -1;
  const std::vector<float> logits = {1.0f, 3.0f, kNan, 3.0f, -kInf};
  for (const float temperature : {0.0f, -1.0f}) {
    EXPECT_EQ(sampled(logits, sampling([&](auto& s) {
                        s.temperature = temperature;
                        s.top_k = 2;
                      }),
                      0, token),
              LLMC_OK);
    EXPECT_EQ(token, 1);
  }
}

TEST(SampleToken, ExtremeParametersStillDraw) {
  const std::vector<float> logits = {1.0f, 3.0e38f, -3.0e38f, 2.9e38f, kNan, -kInf};
  for (const float temperature : {1e-45f, 1e-30f, 1.0f, 3e38f}) {
    const auto share = shares(logits, sampling([&](auto& s) { s.temperature = temperature; }));
    EXPECT_EQ(share[4] + share[5], 0.0) << temperature;
    EXPECT_GT(share[1], 0.0);
  }
  const auto share = shares({2.0f, 1.0f}, sampling([&](auto& s) {
                              s.temperature = 1.0f;
                              s.top_k = 1;
                              s.top_p = 1e-9f;
                              s.min_p = 1.0f;
                            }));
  EXPECT_NEAR(share[0], 1.0, 1e-9);
}

TEST(SampleToken, WithoutALargestFiniteLogitItSaysSo) {
  std::int32_t token = -7;
  for (const auto& logits : std::vector<std::vector<float>>{
           {kNan, kNan, kNan}, {-kInf, -kInf, kNan}, {1.0f, kInf, 2.0f}}) {
    for (const float temperature : {0.0f, 1.0f}) {
      EXPECT_EQ(sampled(logits, sampling([&](auto& s) { s.temperature = temperature; }), 0, token),
                LLMC_ERROR_NOT_FINITE);
      EXPECT_EQ(token, -7);
    }
  }
}

TEST(SampleToken, SameTokensEverywhere) {
  // Fixed by value: another compiler, target or optimization level must not change them.
  std::vector<float> logits(100);
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>((i * 37) % 100) * 0.05f;
  llmc_sampling sampling;
  llmc_sampling_defaults(&sampling);
  sampling.seed = 20240607;
  Ids tokens;
  for (std::uint64_t position = 0; position < 12; ++position) {
    std::int32_t token = -1;
    ASSERT_EQ(sampled(logits, sampling, position, token), LLMC_OK);
    tokens.push_back(token);
  }
  EXPECT_EQ(tokens, (Ids{94, 24, 43, 51, 86, 89, 89, 40, 89, 43, 24, 81}));
}

}  // namespace
}  // namespace llmc::core

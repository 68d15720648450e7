#include "compiler/evaluate/scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "compiler/evaluate/logits.h"

namespace llmc::evaluate {
namespace {

using Logits = std::vector<float>;

/// Logits of these probabilities, shifted by a constant that must not matter.
Logits logits_of(std::initializer_list<double> probabilities, float shift = 3) {
  Logits logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)) + shift);
  return logits;
}

TEST(KlDivergence, OfDistributionsCountedByHand) {
  const Logits base = logits_of({0.5, 0.25, 0.25}), tested = logits_of({0.25, 0.5, 0.25}, -7);
  // 1/2 ln 2 - 1/4 ln 2
  EXPECT_NEAR(kl_divergence(base, log_sum_exp(base), tested, log_sum_exp(tested)),
              0.25 * std::log(2.0), 1e-6);
  EXPECT_EQ(kl_divergence(base, log_sum_exp(base), base, log_sum_exp(base)), 0);
  const float never = -std::numeric_limits<float>::infinity();
  const Logits sure{0, never};
  const Logits even{1, 1};
  EXPECT_NEAR(kl_divergence(sure, log_sum_exp(sure), even, log_sum_exp(even)), std::log(2.0),
              1e-12);
  EXPECT_EQ(kl_divergence(even, log_sum_exp(even), sure, log_sum_exp(sure)),
            std::numeric_limits<double>::infinity());
  const Logits nan{0, std::nanf("")};
  EXPECT_TRUE(std::isnan(kl_divergence(nan, log_sum_exp(nan), even, log_sum_exp(even))));
}

TEST(RunningMean, HasTheStandardErrorOfTheMean) {
  RunningMean mean;
  EXPECT_EQ(mean.mean().error, 0);
  for (const double x : {2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0}) mean.add(x + 1e6);
  EXPECT_NEAR(mean.mean().value, 5 + 1e6, 1e-9);
  // Their variance is 4 (deviations 3 1 1 1 0 0 2 4): 4 / 7.
  EXPECT_NEAR(mean.mean().error, std::sqrt(4.0 / 7), 1e-9);
}

TEST(Quantile, LiesBetweenNeighbours) {
  const std::vector<double> values{1, 2, 4, 8, 16};
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_EQ(quantile(values, 0.5), 4);
  EXPECT_EQ(quantile(values, 1), 16);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 0.4 * 8 + 0.6 * 16);
  EXPECT_DOUBLE_EQ(quantile(std::vector<double>{1, 2}, 0.5), 1.5) << "of an even number, the mean";
  EXPECT_EQ(quantile(std::vector<double>{3}, 0.99), 3);
}

TEST(Scores, PerplexityOfProbabilitiesCountedByHand) {
  Scores scores;
  ASSERT_TRUE(scores.add(logits_of({0.5, 0.5}), 0));
  ASSERT_TRUE(scores.add(logits_of({0.125, 0.875}), 0));
  EXPECT_EQ(scores.count(), 2u);
  EXPECT_NEAR(scores.mean_loss().value, std::log(4.0), 1e-6) << "(ln 2 + ln 8) / 2";
  EXPECT_NEAR(scores.mean_loss().error, std::log(2.0), 1e-6) << "both are ln 2 from it";
  EXPECT_NEAR(scores.perplexity().value, 4, 1e-5);
  EXPECT_NEAR(scores.perplexity().error, 4 * std::log(2.0), 1e-5);
  EXPECT_FALSE(scores.divergence().has_value());
}

TEST(Scores, RefuseWhatIsNoProbability) {
  const float inf = std::numeric_limits<float>::infinity();
  Scores scores;
  EXPECT_FALSE(scores.add(Logits{0, std::nanf("")}, 0));
  EXPECT_FALSE(scores.add(Logits{0, inf}, 0));
  EXPECT_FALSE(scores.add(Logits{0, -inf}, 1)) << "it cannot come";
  EXPECT_FALSE(scores.add(Logits{0, 0}, 1, Logits{0, std::nanf("")}));
  EXPECT_FALSE(scores.add(Logits{0, -inf}, 0, Logits{0, 0}));
  EXPECT_EQ(scores.count(), 0u);
  EXPECT_TRUE(scores.add(Logits{0, -inf}, 0));
}

/// Softmax in double, without any care for its range.
std::vector<double> softmax(const Logits& logits) {
  std::vector<double> p(logits.begin(), logits.end());
  double sum = 0;
  for (double& x : p) sum += x = std::exp(x);
  for (double& x : p) x /= sum;
  return p;
}

/// Mean and its standard error as two sums, as llama.cpp forms them.
Estimate of_sums(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double x : values) sum += x, squares += x * x;
  const auto n = static_cast<double>(values.size());
  return {sum / n, std::sqrt((squares / n - sum / n * sum / n) / (n - 1))};
}

TEST(Scores, AreWhatPlainLoopsOverDoublesGive) {
  constexpr std::size_t kTokens = 500, kVocabulary = 40;
  std::mt19937 random(7);
  std::normal_distribution<float> wide(0, 2), narrow(0, 0.3f);
  Scores scores;
  std::vector<double> loss, base_loss, difference, kl;
  double same = 0;
  for (std::size_t t = 0; t < kTokens; ++t) {
    Logits base(kVocabulary), tested(kVocabulary);
    for (std::size_t i = 0; i < kVocabulary; ++i) {
      base[i] = wide(random);
      tested[i] = base[i] + narrow(random);
    }
    const auto token = static_cast<std::int32_t>(random() % kVocabulary);
    ASSERT_TRUE(scores.add(tested, token, base));
    const auto p = softmax(base), q = softmax(tested);
    const auto at = static_cast<std::size_t>(token);
    loss.push_back(-std::log(q[at]));
    base_loss.push_back(-std::log(p[at]));
    difference.push_back(std::log(p[at] / q[at]));
    double sum = 0;
    for (std::size_t i = 0; i < kVocabulary; ++i) sum += p[i] * std::log(p[i] / q[i]);
    kl.push_back(sum);
    same += std::ranges::max_element(p) - p.begin() == std::ranges::max_element(q) - q.begin();
  }
  const auto near = [](Estimate actual, Estimate expected) {
    EXPECT_NEAR(actual.value, expected.value, 1e-9);
    EXPECT_NEAR(actual.error, expected.error, 1e-9);
  };
  near(scores.mean_loss(), of_sums(loss));
  const double base_perplexity = std::exp(of_sums(base_loss).value);
  const double ratio = scores.perplexity().value / base_perplexity;
  const auto d = scores.divergence();
  ASSERT_TRUE(d.has_value());
  near(d->base_perplexity, {base_perplexity, base_perplexity * of_sums(base_loss).error});
  near(d->ratio, {ratio, ratio * of_sums(difference).error});
  near(d->kl, of_sums(kl));
  const double part = same / kTokens;
  EXPECT_GT(part, 0.5);
  EXPECT_LT(part, 1) << "the loop above would see nothing";
  near(d->same_top, {part, std::sqrt(part * (1 - part) / (kTokens - 1))});
  std::ranges::sort(kl);
  EXPECT_NEAR(d->median, (kl[249] + kl[250]) / 2, 1e-9);
  EXPECT_NEAR(d->p90, 0.9 * kl[449] + 0.1 * kl[450], 1e-9) << "place 449.1 of 0 … 499";
  EXPECT_NEAR(d->p99, 0.99 * kl[494] + 0.01 * kl[495], 1e-9) << "place 494.01";
  EXPECT_NEAR(d->p999, 0.499 * kl[498] + 0.501 * kl[499], 1e-9) << "place 498.501";
  EXPECT_NEAR(d->largest, kl[499], 1e-9);
}

}  // namespace
}  // namespace llmc::evaluate

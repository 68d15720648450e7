#include "compiler/calibrate/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace llmc::calibrate {
namespace {

using ::testing::ElementsAre;

/// Units of different sizes and losses.
std::vector<ChoiceUnit> units_of(std::size_t count) {
  std::vector<ChoiceUnit> units;
  std::uint32_t state = 7;
  const auto random = [&] { return (state = state * 1664525u + 1013904223u) >> 16; };
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t weights = 64 * (1 + random() % 1000);
    const double loss = static_cast<double>(1 + random() % 5000);
    units.push_back(
        {{weights * 9 / 16, weights * 13 / 16, weights * 17 / 16}, {loss, loss / 15, loss / 250}});
  }
  return units;
}

/// The least loss of all combinations.
double best_of(const std::vector<ChoiceUnit>& units, std::uint64_t budget) {
  double best = 1e300;
  std::size_t all = 1;
  for (std::size_t i = 0; i < units.size(); ++i) all *= kChoices.size();
  for (std::size_t n = 0; n < all; ++n) {
    Formats formats;
    for (std::size_t i = 0, rest = n; i < units.size(); ++i, rest /= kChoices.size())
      formats.push_back(rest % kChoices.size());
    if (bytes_of(units, formats) <= budget) best = std::min(best, loss_of(units, formats));
  }
  return best;
}

TEST(LeastLoss, IsTheLeastOfAllCombinations) {
  const auto units = units_of(7);
  const std::uint64_t least = bytes_of(units, Formats(7, 0)), all = bytes_of(units, Formats(7, 2));
  for (std::uint64_t budget = least; budget <= all; budget += (all - least) / 13) {
    const Formats formats = least_loss(units, budget);
    EXPECT_LE(bytes_of(units, formats), budget);
    EXPECT_LE(loss_of(units, formats), best_of(units, budget - 64) * 1.0000001) << budget;
  }
  EXPECT_EQ(least_loss(units, least), Formats(7, 0));
  EXPECT_EQ(least_loss(units, all), Formats(7, 2));
}

TEST(LeastLoss, ALargerBudgetHasNoLargerLoss) {
  const auto units = units_of(60);
  const std::uint64_t least = bytes_of(units, Formats(60, 0));
  double before = loss_of(units, Formats(60, 0));
  for (std::uint64_t budget = least; budget <= least * 2; budget += least / 97) {
    const Formats formats = least_loss(units, budget);
    EXPECT_LE(bytes_of(units, formats), budget);
    EXPECT_LE(loss_of(units, formats), before);
    before = loss_of(units, formats);
  }
  EXPECT_LT(before, 0.01 * loss_of(units, Formats(60, 0)));
}

TEST(LeastLoss, AFinerFormatWithoutGainIsNotUsed) {
  const std::vector<ChoiceUnit> units{{{64, 128, 192}, {1, 0.5, 0.5}}, {{64, 64, 64}, {0, 0, 0}}};
  EXPECT_THAT(least_loss(units, 1 << 20), ElementsAre(1, 0));
}

TEST(LeastBytes, KeepsTheLossBelowTheBudget) {
  const auto units = units_of(7);
  const double worst = loss_of(units, Formats(7, 0));
  for (const double budget : {worst, worst / 2, worst / 10, worst / 100}) {
    const Formats formats = least_bytes(units, budget);
    EXPECT_LE(loss_of(units, formats), budget);
    // No combination that is a step smaller keeps it.
    const std::uint64_t bytes = bytes_of(units, formats);
    if (bytes > bytes_of(units, Formats(7, 0))) EXPECT_GT(best_of(units, bytes - 64), budget);
  }
  EXPECT_EQ(least_bytes(units, 0), Formats(7, 2)) << "the best there is";
}

TEST(SimilarRanges, AreAsManyAsAllowedAndEndWhereLossesChange) {
  using Layers = std::vector<std::vector<double>>;
  EXPECT_THAT(similar_ranges(Layers(3, {1, 2}), 8), ElementsAre(1, 1, 1));
  const Layers losses{{8, 1}, {9, 1}, {1, 1}, {1.1, 1}, {0.9, 1}, {1, 20}};
  EXPECT_THAT(similar_ranges(losses, 3), ElementsAre(2, 3, 1));
  EXPECT_THAT(similar_ranges(losses, 1), ElementsAre(6));
  EXPECT_THAT(similar_ranges(Layers(5, {0}), 2), ::testing::SizeIs(2));
}

}  // namespace
}  // namespace llmc::calibrate

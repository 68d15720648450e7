#include "compiler/evaluate/logits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace llmc::evaluate {
namespace {

TEST(LogitHash, IsOverBitsInOrderAndNotOverCalls) {
  const auto hash = [](std::initializer_list<std::vector<float>> parts) {
    LogitHash h;
    for (const auto& part : parts) h.add(part);
    return h.text();
  };
  EXPECT_EQ(hash({}), "ef46db3751d8e999") << "xxh64 of nothing";
  EXPECT_EQ(hash({{1, 2, 3}}), hash({{1}, {2, 3}}));
  EXPECT_NE(hash({{1, 2, 3}}), hash({{2, 1, 3}}));
  EXPECT_NE(hash({{0.0f}}), hash({{-0.0f}}));
}

TEST(LogSumExp, IsExactWhereExpIsOutOfRange) {
  const std::vector<float> equal{1000, 1000, 1000, 1000};
  EXPECT_NEAR(log_sum_exp(equal), 1000 + std::log(4.0), 1e-12);
  const std::vector<float> low{-5000, -5000};
  EXPECT_NEAR(log_sum_exp(low), -5000 + std::log(2.0), 1e-12);
  const std::vector<float> masked{1.5f, -std::numeric_limits<float>::infinity()};
  EXPECT_EQ(log_sum_exp(masked), 1.5);
  const std::vector<float> nan{1.0f, std::nanf("")};
  EXPECT_TRUE(std::isnan(log_sum_exp(nan)));
}

}  // namespace
}  // namespace llmc::evaluate

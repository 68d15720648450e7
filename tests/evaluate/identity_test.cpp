#include "compiler/evaluate/identity.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace llmc::evaluate {
namespace {

TEST(LogitComparison, NamesTheFirstLogitThatDiffers) {
  const std::vector<std::vector<float>> first{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
  const std::vector<std::vector<float>> other{
      {1, 2, 3}, {4, std::nextafter(5.0f, 6.0f), 0}, {0, 0, 0}};
  std::vector<float> expected;
  LogitComparison one(1, expected);
  for (const auto& logits : first) one.add(logits);
  LogitComparison two(7, expected), again(32, expected);
  for (const auto& logits : other) two.add(logits);
  for (const auto& logits : first) again.add(logits);
  EXPECT_FALSE(one.difference());
  EXPECT_FALSE(again.difference());
  EXPECT_EQ(again.hash(), one.hash());
  EXPECT_NE(two.hash(), one.hash());
  ASSERT_TRUE(two.difference());
  EXPECT_EQ(two.difference()->chunk, 7u);
  EXPECT_EQ(two.difference()->position, 1u);
  EXPECT_EQ(two.difference()->logit, 1u);
  EXPECT_EQ(two.difference()->expected, 5.0f);
}

TEST(LogitComparison, SignsOfZeroCountAndKindsOfNanDoNot) {
  // What an invalid operation gives on x86 and on Arm.
  const float x86 = std::bit_cast<float>(0xffc00000u), arm = std::bit_cast<float>(0x7fc00000u);
  const auto against = [](float first, float second) {
    std::vector<float> expected;
    LogitComparison one(1, expected);
    one.add(std::vector<float>{first});
    LogitComparison two(1, expected);
    two.add(std::vector<float>{second});
    EXPECT_EQ(two.hash() == one.hash(), !two.difference());
    return std::pair(two.difference().has_value(), two.nan_logits());
  };
  EXPECT_EQ(against(0.0f, -0.0f), std::pair(true, std::uint64_t{0}));
  EXPECT_EQ(against(x86, arm), std::pair(false, std::uint64_t{1})) << "counted, not hidden";
  EXPECT_EQ(against(1.0f, arm), std::pair(true, std::uint64_t{1}));
  EXPECT_EQ(against(x86, 1.0f), std::pair(true, std::uint64_t{0}));
}

}  // namespace
}  // namespace llmc::evaluate

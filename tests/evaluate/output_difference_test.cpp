#include "compiler/evaluate/output_difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace llmc::evaluate {
namespace {

/// Returns 20 elements of 100, of which the last is `last`.
ir::ConstantPtr elements(ir::ElementType element, std::uint8_t last) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < 20; ++i) {
    bytes.push_back(static_cast<std::byte>(i < 19 ? 100 : last));
    bytes.resize(bytes.size() + ir::element_bytes(element) - 1);
  }
  return ir::make_constant(element, {20}, std::move(bytes));
}

TEST(VerifyOutput, JudgesSmallIntegersByTheirSizeAndIdsByTheirNumber) {
  constexpr double kAllowed = 0.04;
  const auto verified = [&](ir::ElementType element) {
    return verify_output("y", *elements(element, 101), *elements(element, 100), kAllowed);
  };
  const VerifiedOutput codes = verified(ir::ElementType::kU8);
  EXPECT_TRUE(codes.ok);
  EXPECT_NEAR(codes.relative_error, 0.01 / std::sqrt(20), 1e-6);
  for (const auto element : {ir::ElementType::kI32, ir::ElementType::kI64}) {
    const VerifiedOutput ids = verified(element);
    EXPECT_FALSE(ids.ok);
    EXPECT_DOUBLE_EQ(ids.relative_error, 0.05);
  }
  EXPECT_FALSE(codes.largest.all_zeros);
}

TEST(VerifyOutput, KnowsZeros) {
  const auto zeros = ir::make_f32({2}, {0, -0.0F}), ones = ir::make_f32({2}, {1, 1});
  EXPECT_TRUE(verify_output("y", *zeros, *ones, 0.05).largest.all_zeros);
  EXPECT_FALSE(verify_output("y", *ones, *zeros, 0.05).largest.all_zeros);
  EXPECT_FALSE(verify_output("y", *ir::make_f32({3}, {0, 0, 0}), *ones, 0.05).largest.all_zeros)
      << "other dims are not compared";
}

}  // namespace
}  // namespace llmc::evaluate

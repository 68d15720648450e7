#include "compiler/plan/expression.h"

#include <gtest/gtest.h>

namespace llmc::plan {
namespace {

using ir::BinaryKind;
using ir::ElementType;

TEST(Expression, IntegerAndBooleanIdentitiesAreLeftOut) {
  const ExpressionPtr i = index_expression(View{View::kNoBuffer, {4}, {1}, 0});
  const ExpressionPtr zero = literal(ElementType::kI64, 0), one = literal(ElementType::kI64, 1);
  EXPECT_EQ(binary(BinaryKind::kAdd, ElementType::kI64, i, zero), i);
  EXPECT_EQ(binary(BinaryKind::kAdd, ElementType::kI64, zero, i), i);
  EXPECT_EQ(binary(BinaryKind::kSub, ElementType::kI64, i, zero), i);
  EXPECT_EQ(binary(BinaryKind::kMul, ElementType::kI64, one, i), i);
  EXPECT_EQ(cast(ElementType::kI64, i), i);
  const ExpressionPtr is_less = binary(BinaryKind::kLess, ElementType::kBool, i, one);
  const ExpressionPtr yes = literal(ElementType::kBool, 1), no = literal(ElementType::kBool, 0);
  EXPECT_EQ(binary(BinaryKind::kAnd, ElementType::kBool, yes, is_less), is_less);
  EXPECT_EQ(binary(BinaryKind::kOr, ElementType::kBool, is_less, no), is_less);
}

TEST(Expression, OtherOperandsStay) {
  const ExpressionPtr i = index_expression(View{View::kNoBuffer, {4}, {1}, 0});
  const ExpressionPtr zero = literal(ElementType::kI64, 0), one = literal(ElementType::kI64, 1);
  EXPECT_NE(binary(BinaryKind::kSub, ElementType::kI64, zero, i), i);
  EXPECT_NE(binary(BinaryKind::kAdd, ElementType::kI64, i, one), i);
  EXPECT_NE(binary(BinaryKind::kMul, ElementType::kI64, i, zero), i);
  EXPECT_NE(binary(BinaryKind::kDiv, ElementType::kI64, one, i), i);
  EXPECT_NE(cast(ElementType::kI32, i), i);
  // -0 + 0 is 0, and comparisons have another type.
  const ExpressionPtr x = cast(ElementType::kF32, i), nothing = literal(ElementType::kF32, 0);
  EXPECT_NE(binary(BinaryKind::kAdd, ElementType::kF32, x, nothing), x);
  EXPECT_NE(binary(BinaryKind::kLess, ElementType::kBool, i, zero), i);
}

}  // namespace
}  // namespace llmc::plan

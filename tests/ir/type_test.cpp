#include "compiler/ir/type.h"

#include <gtest/gtest.h>

namespace llmc::ir {
namespace {

TEST(Type, EveryElementTypeHasANameAndASize) {
  for (int i = 0; i <= static_cast<int>(ElementType::kBool); ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(parse_element_type(to_string(type)), type);
    EXPECT_GE(element_bytes(type), 1u);
    EXPECT_EQ(is_float(type) + is_integer(type) + (type == ElementType::kBool), 1);
  }
  EXPECT_EQ(parse_element_type("f128"), std::nullopt);
  EXPECT_EQ(element_bytes(ElementType::kBF16), 2u);
}

TEST(Type, PrintsShape) {
  const Dim total = *add(Dim::symbol("past"), Dim::symbol("seq"));
  EXPECT_EQ(to_string(TensorType{ElementType::kF32, {Dim(1), total}}), "f32[1, past + seq]");
  EXPECT_EQ(to_string(TensorType{ElementType::kI64, {}}), "i64[]");
}

TEST(Type, CountsElementsOnlyWhenTheyAreKnownAndFit) {
  EXPECT_EQ(element_count({ElementType::kF32, {}}), 1);
  EXPECT_EQ(element_count({ElementType::kF32, {Dim(2), Dim(3)}}), 6);
  EXPECT_EQ(element_count({ElementType::kF32, {Dim(2), Dim::symbol("n")}}), std::nullopt);
  EXPECT_EQ(element_count({ElementType::kF32, {Dim(INT64_MAX), Dim(2)}}), std::nullopt);
  EXPECT_EQ(element_count({ElementType::kF32, {Dim(INT64_MAX), Dim(2), Dim(0)}}), 0);
  EXPECT_EQ(element_count({ElementType::kF32, {Dim(-1), Dim(0)}}), std::nullopt);
}

}  // namespace
}  // namespace llmc::ir

#include "compiler/reference/tensor.h"

#include <gtest/gtest.h>

#include <cmath>

namespace llmc::reference {
namespace {

TEST(Tensor, ConstantsGoBothWays) {
  for (const auto& constant :
       {ir::make_f32({2, 2}, {1, 2, 3, 4}), ir::make_i64({2}, {-1, INT64_MIN}),
        ir::make_splat(ir::ElementType::kF16, {3}, 0.1),
        ir::make_splat(ir::ElementType::kI8, {}, -3),
        ir::make_splat(ir::ElementType::kBool, {2}, 1),
        ir::make_splat(ir::ElementType::kU16, {2}, 65535),
        ir::make_splat(ir::ElementType::kBF16, {1, 2, 3}, 2), ir::make_f32({0}, {}),
        ir::make_splat(ir::ElementType::kF64, {2}, 0.1),
        ir::make_splat(ir::ElementType::kU64, {1}, 1.8e19)}) {
    const auto back = to_constant(to_tensor(*constant));
    EXPECT_EQ(back->element(), constant->element());
    EXPECT_EQ(back->dims(), constant->dims());
    EXPECT_EQ(back->bytes(), constant->bytes());
  }
}

TEST(Tensor, RoundsToItsElementType) {
  const auto rounded = [](ir::ElementType element, float x) {
    Tensor tensor{element, {1}, {x}, {}};
    round_to_element(tensor);
    return tensor.floats[0];
  };
  EXPECT_EQ(rounded(ir::ElementType::kF16, 0.1f), 0.0999755859375f);
  EXPECT_EQ(rounded(ir::ElementType::kF16, 1e6f), INFINITY);
  EXPECT_EQ(rounded(ir::ElementType::kBF16, 0.1f), 0.10009765625f);
  EXPECT_EQ(rounded(ir::ElementType::kF32, 0.1f), 0.1f);
  Tensor bytes{ir::ElementType::kU8, {3}, {}, {-1, 256, 5}};
  round_to_element(bytes);
  EXPECT_EQ(bytes.integers, (std::vector<std::int64_t>{255, 0, 5}));
}

TEST(TensorDeathTest, SizesMustMatch) {
  EXPECT_DEATH((void)f32_tensor({2}, {1}), "broken invariant");
  EXPECT_DEATH((void)zeros(ir::ElementType::kF32, {-1}), "broken invariant");
}

}  // namespace
}  // namespace llmc::reference

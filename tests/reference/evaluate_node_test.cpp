#include <gtest/gtest.h>

#include "compiler/ir/op_info.h"
#include "compiler/reference/interpreter.h"

namespace llmc::reference {
namespace {

TEST(EvaluateNode, NeedsNoGraph) {
  const Tensor a = f32_tensor({2}, {1, 2}), b = f32_tensor({1}, {10});
  const auto sum = evaluate_node({ir::Binary{ir::BinaryKind::kAdd}, {}, {}, {}}, {&a, &b});
  ASSERT_TRUE(sum.ok());
  EXPECT_EQ((*sum)[0], f32_tensor({2}, {11, 12}));
  EXPECT_FALSE(evaluate_node({ir::Binary{ir::BinaryKind::kAdd}, {}, {}, {}}, {&a}).ok());
  EXPECT_FALSE(evaluate_node({ir::Binary{ir::BinaryKind::kAdd}, {}, {}, {}}, {&a, nullptr}).ok());
  EXPECT_FALSE(evaluate_node({ir::Parameter{}, {}, {}, {}}, {}).ok());
  EXPECT_FALSE(evaluate_node({ir::Loop{}, {}, {}, {}}, {}).ok());
}

TEST(EvaluateNode, ProductsOfExpertsAreThoseOfTheirRows) {
  const ir::Node node{ir::ExpertLinear{.experts = 3}, {}, {}, {}};
  const Tensor x = f32_tensor({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor weight = f32_tensor({3, 2}, {1, 0, 0, 1, 1, 1}),
               ids = i64_tensor({2, 2}, {2, 0, 9, 2});
  const Tensor bias = f32_tensor({3}, {0.5, 0, -0.5});
  const std::vector<const Tensor*> operands{&x, &weight, &ids, &bias};
  const auto plain = evaluate_node(node, operands);
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ((*plain)[0], f32_tensor({2, 2, 1}, {2.5, 3.5, 10.5, 14.5}));

  // The same with products that are computed outside, for each expert that has rows.
  std::vector<std::size_t> blocks;
  InterpreterOptions how;
  how.product = [&](std::size_t block, std::span<const float> rows, std::span<float> y) {
    blocks.push_back(block);
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] =
          rows[2 * i] * weight.floats[2 * block] + rows[2 * i + 1] * weight.floats[2 * block + 1];
  };
  EXPECT_EQ(*evaluate_node(node, operands, how), *plain);
  EXPECT_EQ(blocks, (std::vector<std::size_t>{0, 2}));

  const auto of_last = product_input(node, operands, 2), of_none = product_input(node, operands, 1);
  ASSERT_TRUE(of_last.ok() && of_none.ok());
  EXPECT_EQ(of_last->rows, (std::vector<float>{1, 2, 5, 6, 7, 8}));
  EXPECT_EQ(of_last->places, (std::vector<std::size_t>{0, 2, 3}));
  EXPECT_TRUE(of_none->rows.empty());
  EXPECT_EQ(product_input(node, operands)->rows, x.floats);
}

/// Operands of the wrong type or rank, as a pass that folds an unverified graph might hand over.
TEST(EvaluateNode, WrongOperandsAreErrors) {
  const Tensor operands[] = {f32_tensor({}, {1}),
                             i64_tensor({2}, {-1, 7}),
                             Tensor{ir::ElementType::kBool, {1}, {}, {1}},
                             f32_tensor({2, 2}, {1, 2, 3, 4}),
                             i64_tensor({0}, {}),
                             f32_tensor({1, 0, 2, 2}, {}),
                             f32_tensor({1, 1, 2, 2}, {1, 2, 3, 4})};
  std::size_t evaluated = 0;
  for (const auto name : ir::op_names()) {
    auto op = *ir::make_op(name);
    if (auto* fill = std::get_if<ir::ConstantOfShape>(&op)) fill->value = ir::make_f32({1}, {1});
    if (std::holds_alternative<ir::ConstantOp>(op)) continue;
    for (std::size_t count = 0; count <= 4; ++count)
      for (std::size_t pick = 0; pick < 7 * 7 * 7 * 7; ++pick) {
        std::vector<const Tensor*> inputs;
        std::size_t rest = pick;
        for (std::size_t i = 0; i < count; ++i, rest /= 7) inputs.push_back(&operands[rest % 7]);
        if (rest > 0) continue;
        InterpreterOptions options;
        options.memory_limit_bytes = 1 << 16;
        evaluated += evaluate_node({op, {}, {}, {}}, inputs, options).ok();
      }
  }
  EXPECT_GT(evaluated, 300u);  // whatever fits is computed, the rest is refused without a crash
}

}  // namespace
}  // namespace llmc::reference

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

/// Operands of the wrong type or rank, as a pass that folds an unverified graph might hand over.
TEST(EvaluateNode, WrongOperandsAreErrors) {
  const Tensor operands[] = {f32_tensor({}, {1}),
                             i64_tensor({2}, {-1, 7}),
                             bool_tensor({1}, {1}),
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

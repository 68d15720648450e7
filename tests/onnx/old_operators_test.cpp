// Operators in forms that later operator sets changed: attributes that became operands, other
// defaults, and the broadcasting of operator sets 1 to 6.

#include <gtest/gtest.h>

#include "compiler/reference/interpreter.h"
#include "tests/onnx/imported.h"

namespace llmc::old_operators {
namespace {

using testing::Attribute;
using testing::OnnxBuilder;
using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;
using Names = std::vector<std::string>;

struct Case {
  std::string name;
  std::int64_t opset;
  std::string op;
  /// "x" f32[1, 2, 3] = 1 … 6, "p" f32[2] = 10, 20, "r" f32[3] = 1, 2, 3, "n" f32[1] = 2, "i"
  /// i64[2] = 1, 2, "image" f32[1, 1, 2, 2] = 1 … 4; others: run().
  Names operands;
  std::vector<Attribute> attributes;
  Ints dims;
  Floats values;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name << " in operator set " << c.opset;
}

Result<reference::Tensor> run(const Case& c) {
  OnnxBuilder b(c.opset);
  b.model.set_ir_version(3);
  b.float_input("x", {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}});
  b.floats("p", {2}, Floats{10, 20});
  b.floats("r", {3}, Floats{1, 2, 3});
  b.floats("n", {1}, Floats{2});
  b.floats("zero", {}, Floats{0});
  b.floats("v", {2}, Floats{4, 4});
  b.floats("g", {2, 2}, Floats{1, 2, 3, 4});
  b.floats("m", {1, 2, 2}, Floats{-1, -2, -3, 4});
  b.floats("image", {1, 1, 2, 2}, Floats{1, 2, 3, 4});
  Names operands = c.operands;
  for (std::string& name : operands)
    if (name == "i") name = b.integers({1, 2});
  if (c.op == "Split")
    b.raw_node(c.op, operands, {"a", "y"}, c.attributes);
  else
    b.node(c.op, operands, c.attributes, "y");
  b.float_output("y", {});
  LLMC_TRY(const auto model, import(b));
  std::vector<reference::Tensor> inputs;
  if (!model.graph().inputs().empty())
    inputs.push_back(reference::f32_tensor({1, 2, 3}, {1, 2, 3, 4, 5, 6}));
  LLMC_TRY(const auto outputs, reference::evaluate(model.graph(), inputs));
  return outputs.at(0);
}

class OldOperators : public ::testing::TestWithParam<Case> {};

TEST_P(OldOperators, ComputeWhatTheirOperatorSetSays) {
  const Case& c = GetParam();
  const auto y = run(c);
  ASSERT_TRUE(y.ok()) << errors(y.error());
  EXPECT_EQ(y->dims, c.dims);
  const Floats got = y->is_float() ? y->floats : Floats(y->integers.begin(), y->integers.end());
  ASSERT_EQ(got.size(), c.values.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], c.values[i], 1e-5f) << i;
}

std::vector<Case> cases() {
  const std::int64_t one = 1;
  const Ints dims{1, 2, 3};
  const Attribute broadcast{"broadcast", one}, consumed{"consumed_inputs", Ints{0}};
  const Floats x{1, 2, 3, 4, 5, 6};
  return {
      {"AddLastDims", 6, "Add", {"x", "r"}, {broadcast}, dims, {2, 4, 6, 5, 7, 9}},
      {"AddFromAxis",
       6,
       "Add",
       {"x", "p"},
       {broadcast, {"axis", one}},
       dims,
       {11, 12, 13, 24, 25, 26}},
      {"MulOneElement", 1, "Mul", {"x", "n"}, {broadcast, consumed}, dims, {2, 4, 6, 8, 10, 12}},
      {"LessFromAxis", 1, "Less", {"x", "p"}, {broadcast, {"axis", one}}, dims, {1, 1, 1, 1, 1, 1}},
      {"PowSameDims", 6, "Pow", {"r", "r"}, {}, {3}, {1, 4, 27}},
      {"MaxOfTwo", 7, "Max", {"r", "r"}, {}, {3}, {1, 2, 3}},
      {"MinOfOne", 6, "Min", {"r"}, {}, {3}, {1, 2, 3}},
      {"Mean", 1, "Mean", {"r", "r"}, {consumed}, {3}, {1, 2, 3}},
      {"Relu", 1, "Relu", {"x"}, {consumed}, dims, x},
      {"Clip", 1, "Clip", {"x"}, {consumed, {"max", 4.f}, {"min", 2.f}}, dims, {2, 2, 3, 4, 4, 4}},
      {"Selu", 1, "Selu", {"x"}, {}, dims, {1.0507f, 2.1014f, 3.1521f, 4.2028f, 5.2535f, 6.3042f}},
      {"PReluOfChannels", 6, "PRelu", {"m", "p"}, {}, {1, 2, 2}, {-10, -20, -60, 4}},
      {"Cast", 5, "Cast", {"x"}, {{"to", std::string("INT32")}}, dims, x},
      {"ConcatAtOne", 3, "Concat", {"x", "x"}, {}, {1, 4, 3}, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}},
      {"SplitByOperand",
       1,
       "Split",
       {"x", "i"},
       {{"axis", std::int64_t{2}}},
       {1, 2, 2},
       {2, 3, 5, 6}},
      {"Tile", 5, "Tile", {"r", "n", "zero"}, {}, {6}, {1, 2, 3, 1, 2, 3}},
      {"Reshape", 4, "Reshape", {"x"}, {{"shape", Ints{0, 3, -1}}}, {1, 3, 2}, x},
      {"Gemm", 6, "Gemm", {"g", "g", "p"}, {broadcast}, {2, 2}, {17, 30, 25, 42}},
      {"Dropout", 6, "Dropout", {"x"}, {{"is_test", one}, {"ratio", 0.5f}}, dims, x},
      {"BatchNormalization",
       6,
       "BatchNormalization",
       {"x", "p", "p", "p", "v"},
       {{"is_test", one}, {"epsilon", 0.f}},
       dims,
       {-35, -30, -25, -140, -130, -120}},
      {"UpsampleByHeight",
       1,
       "Upsample",
       {"image"},
       {{"height_scale", 1.f}, {"width_scale", 2.f}},
       {1, 1, 2, 4},
       {1, 1, 2, 2, 3, 3, 4, 4}},
  };
}

TEST(OldOperators, WhatIsNotInferenceIsRefused) {
  for (const Case& c : {Case{"", 6, "Dropout", {"x"}, {}, {}, {}},
                        Case{"", 6, "BatchNormalization", {"x", "p", "p", "p", "v"}, {}, {}, {}}}) {
    const auto y = run(c);
    ASSERT_FALSE(y.ok());
    EXPECT_NE(errors(y.error()).find("training mode"), std::string::npos) << errors(y.error());
  }
  const auto later = run({"", 7, "Add", {"x", "p"}, {{"broadcast", std::int64_t{1}}}, {}, {}});
  ASSERT_FALSE(later.ok()) << "the attribute ended with operator set 6";
  EXPECT_NE(errors(later.error()).find("'broadcast'"), std::string::npos);
  EXPECT_FALSE(run({"", 7, "Relu", {"x"}, {{"consumed_inputs", Ints{0}}}, {}, {}}).ok());
}

TEST(OldOperators, OperandsThatDoNotFitAreRefused) {
  const Attribute broadcast{"broadcast", std::int64_t{1}};
  const auto at = [](std::int64_t axis) { return Attribute{"axis", axis}; };
  struct Refused {
    Names operands;
    std::vector<Attribute> attributes;
    const char* message;
  };
  for (const Refused& c : {
           Refused{{"x", "r"}, {}, "the dims of f32[3] are not those of f32[1, 2, 3]"},
           Refused{{"x", "n"}, {}, "the dims of f32[1] are not those of f32[1, 2, 3]"},
           Refused{{"r", "n"}, {}, "the dims of f32[1] are not those of f32[3]"},
           Refused{{"r", "x"}, {broadcast}, "the dims of f32[1, 2, 3] are not those of f32[3]"},
           Refused{{"x", "p"}, {broadcast}, "f32[1, 2, 3] from axis 2 on"},
           Refused{{"x", "r"}, {broadcast, at(1)}, "f32[1, 2, 3] from axis 1 on"},
           Refused{{"x", "p"}, {broadcast, at(0)}, "f32[1, 2, 3] from axis 0 on"},
           Refused{{"x", "p"}, {broadcast, at(3)}, "axis 3 does not fit"},
           Refused{{"x", "p"}, {broadcast, at(-1)}, "axis -1 does not fit"},
       }) {
    const auto y = run({"", 6, "Add", c.operands, c.attributes, {}, {}});
    ASSERT_FALSE(y.ok()) << c.message;
    EXPECT_NE(errors(y.error()).find(c.message), std::string::npos) << errors(y.error());
    EXPECT_FALSE(y.error().first().node.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, OldOperators, ::testing::ValuesIn(cases()), [](const auto& info) {
  return info.param.name + "_" + std::to_string(info.param.opset);
});

}  // namespace
}  // namespace llmc::old_operators

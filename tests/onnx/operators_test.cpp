// Each ONNX operator in its operator-set versions: imported, run, and compared with numbers from
// the operator's definition.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "compiler/ir/verify.h"
#include "compiler/onnx/model.h"
#include "compiler/reference/interpreter.h"
#include "tests/onnx/imported.h"
#include "tests/support_onnx/onnx_builder.h"

namespace llmc {
namespace {

using onnx::TensorProto;
using reference::Tensor;
using testing::OnnxBuilder;

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;

struct Case {
  std::string name;
  std::int64_t opset;
  /// Builds the graph over the inputs "x" f32[2, 3] = 1 … 6 and "s" f32[1, n, 2] (n is 3 when run,
  /// not known before); its output is "y".
  std::function<void(OnnxBuilder&)> build;
  Ints dims;
  Floats values;  // integers are compared as floats
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name << " in operator set " << c.opset;
}

class Operators : public ::testing::TestWithParam<Case> {};

TEST_P(Operators, ComputeWhatOnnxSays) {
  const Case& c = GetParam();
  OnnxBuilder b(c.opset);
  b.float_input("x", {std::int64_t{2}, std::int64_t{3}});
  b.float_input("s", {std::int64_t{1}, "n", std::int64_t{2}});
  c.build(b);
  b.float_output("y", {});
  const auto model = import(b);
  ASSERT_TRUE(model.ok()) << errors(model.error());
  const auto verified = ir::verify(model->graph());
  ASSERT_TRUE(verified.ok()) << errors(verified.error());
  std::vector<Tensor> inputs;
  for (const auto id : model->graph().inputs())
    inputs.push_back(model->graph().value(id).name == "x"
                         ? reference::f32_tensor({2, 3}, {1, 2, 3, 4, 5, 6})
                         : reference::f32_tensor({1, 3, 2}, {1, 2, 3, 4, 5, 6}));
  const auto outputs = reference::evaluate(model->graph(), inputs);
  ASSERT_TRUE(outputs.ok()) << errors(outputs.error());
  const Tensor& y = outputs->at(0);
  EXPECT_EQ(y.dims, c.dims);
  const Floats got = y.is_float() ? y.floats : Floats(y.integers.begin(), y.integers.end());
  ASSERT_EQ(got.size(), c.values.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], c.values[i], 1e-6f * (1 + std::abs(c.values[i]))) << "element " << i;
}

const Floats kSixValues{1, 2, 3, 4, 5, 6};

std::vector<Case> movement_cases() {
  const auto one = [](std::string op, std::vector<std::string> inputs,
                      std::vector<testing::Attribute> attributes = {}) {
    return [=](OnnxBuilder& b) { b.node(op, inputs, attributes, "y"); };
  };
  const std::int64_t i64 = TensorProto::INT64, f16 = TensorProto::FLOAT16;
  return {
      {"Identity", 15, one("Identity", {"x"}), {2, 3}, kSixValues},
      {"Dropout", 10, one("Dropout", {"x"}, {{"ratio", 0.5f}}), {2, 3}, kSixValues},
      {"Dropout", 13, one("Dropout", {"x"}), {2, 3}, kSixValues},
      {"Cast", 13, one("Cast", {"x"}, {{"to", i64}}), {2, 3}, kSixValues},
      {"CastToHalfStaysFloat", 13, one("Cast", {"x"}, {{"to", f16}}), {2, 3}, kSixValues},
      {"CastLike",
       15,
       [](auto& b) { b.node("CastLike", {"x", b.integer(0)}, {}, "y"); },
       {2, 3},
       kSixValues},
      {"Transpose", 13, one("Transpose", {"x"}), {3, 2}, {1, 4, 2, 5, 3, 6}},
      {"Concat",
       13,
       one("Concat", {"x", "x"}, {{"axis", std::int64_t{-1}}}),
       {2, 6},
       {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}},
      {"ConcatOfOne", 13, one("Concat", {"x"}, {{"axis", std::int64_t{0}}}), {2, 3}, kSixValues},
      {"SplitByAttribute",
       11,
       [](auto& b) {
         b.raw_node("Split", {"x"}, {"a", "y"}, {{"axis", std::int64_t{1}}, {"split", Ints{1, 2}}});
       },
       {2, 2},
       {2, 3, 5, 6}},
      {"SplitByOperand",
       13,
       [](auto& b) {
         b.raw_node("Split", {"x", b.integers({1, 2})}, {"a", "y"}, {{"axis", std::int64_t{1}}});
       },
       {2, 2},
       {2, 3, 5, 6}},
      {"SplitEqual",
       13,
       [](auto& b) { b.raw_node("Split", {"x"}, {"a", "y"}); },
       {1, 3},
       {4, 5, 6}},
      {"SplitUnevenNumOutputs",
       18,
       [](auto& b) {
         b.raw_node("Split", {"x"}, {"a", "y"},
                    {{"axis", std::int64_t{1}}, {"num_outputs", std::int64_t{2}}});
       },
       {2, 1},
       {3, 6}},
      {"SliceByAttributes",
       9,
       one("Slice", {"x"}, {{"starts", Ints{1}}, {"ends", Ints{INT64_MAX}}, {"axes", Ints{1}}}),
       {2, 2},
       {2, 3, 5, 6}},
      {"SliceByOperands",
       13,
       [](auto& b) {
         b.node(
             "Slice",
             {"x", b.integers({-1}), b.integers({INT64_MIN}), b.integers({-1}), b.integers({-2})},
             {}, "y");
       },
       {2, 2},
       {3, 1, 6, 4}},
      {"Gather",
       13,
       [](auto& b) {
         b.node("Gather", {"x", b.integers({-1, 0})}, {{"axis", std::int64_t{-1}}}, "y");
       },
       {2, 2},
       {3, 1, 6, 4}},
      {"Tile",
       13,
       [](auto& b) { b.node("Tile", {"x", b.integers({1, 2})}, {}, "y"); },
       {2, 6},
       {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}},
      {"TriluLower",
       14,
       one("Trilu", {"x"}, {{"upper", std::int64_t{0}}}),
       {2, 3},
       {1, 0, 0, 4, 5, 0}},
  };
}

std::vector<Case> shape_cases() {
  const auto one = [](std::string op, std::vector<std::string> inputs,
                      std::vector<testing::Attribute> attributes = {}) {
    return [=](OnnxBuilder& b) { b.node(op, inputs, attributes, "y"); };
  };
  const auto with_ints = [](std::string op, Ints operand,
                            std::vector<testing::Attribute> attributes = {}) {
    return [=](OnnxBuilder& b) { b.node(op, {"x", b.integers(operand)}, attributes, "y"); };
  };
  return {
      {"Reshape", 13, with_ints("Reshape", {0, -1, 1}), {2, 3, 1}, kSixValues},
      {"FlattenAll", 13, one("Flatten", {"x"}, {{"axis", std::int64_t{0}}}), {1, 6}, kSixValues},
      {"FlattenUnknown",
       13,
       one("Flatten", {"s"}, {{"axis", std::int64_t{-1}}}),
       {3, 2},
       kSixValues},
      {"FlattenBothUnknown",
       13,
       [](OnnxBuilder& b) {
         const auto turned = b.node("Transpose", {"s"}, {{"perm", Ints{0, 2, 1}}});
         b.node("Flatten", {b.node("MatMul", {"s", turned})}, {{"axis", std::int64_t{2}}}, "y");
       },
       {3, 3},
       {5, 11, 17, 11, 25, 39, 17, 39, 61}},
      {"FlattenUnknownTail", 13, one("Flatten", {"s"}), {1, 6}, kSixValues},
      {"UnsqueezeAttribute",
       11,
       one("Unsqueeze", {"x"}, {{"axes", Ints{-1, 0}}}),
       {1, 2, 3, 1},
       kSixValues},
      {"UnsqueezeOperand", 13, with_ints("Unsqueeze", {3, 0}), {1, 2, 3, 1}, kSixValues},
      {"SqueezeAttribute", 11, one("Squeeze", {"s"}, {{"axes", Ints{0}}}), {3, 2}, kSixValues},
      {"SqueezeAll",
       13,
       [](auto& b) { b.node("Squeeze", {b.unsqueeze("x", {0, 2})}, {}, "y"); },
       {2, 3},
       kSixValues},
      {"TransposeFromEnd",
       13,
       one("Transpose", {"x"}, {{"perm", Ints{-1, 0}}}),
       {3, 2},
       {1, 4, 2, 5, 3, 6}},
      {"Expand",
       13,
       [](auto& b) { b.node("Expand", {b.scalar(7), b.integers({1, 2})}, {}, "y"); },
       {1, 2},
       {7, 7}},
      {"Shape", 13, one("Shape", {"s"}), {3}, {1, 3, 2}},
      {"ShapePart",
       15,
       one("Shape", {"s"}, {{"start", std::int64_t{-2}}, {"end", std::int64_t{-1}}}),
       {1},
       {3}},
      {"ShapeEmptyPart",
       15,
       one("Shape", {"s"}, {{"start", std::int64_t{2}}, {"end", std::int64_t{1}}}),
       {0},
       {}},
      {"Size", 13, one("Size", {"s"}), {}, {6}},
      {"ConstantInts", 13, one("Constant", {}, {{"value_ints", Ints{4, 5}}}), {2}, {4, 5}},
      {"ConstantFloat", 13, one("Constant", {}, {{"value_float", 2.5f}}), {}, {2.5f}},
      {"ConstantOfShape",
       13,
       [](auto& b) { b.node("ConstantOfShape", {b.integers({2, 1})}, {}, "y"); },
       {2, 1},
       {0, 0}},
      {"ConstantOfEmptyShape",
       13,
       [](auto& b) { b.node("ConstantOfShape", {b.integers({})}, {}, "y"); },
       {},
       {0}},
      {"Range",
       13,
       [](auto& b) { b.node("Range", {b.integer(1), b.integer(8), b.integer(3)}, {}, "y"); },
       {3},
       {1, 4, 7}},
  };
}

std::vector<Case> math_cases() {
  const auto one = [](std::string op, std::vector<std::string> inputs,
                      std::vector<testing::Attribute> attributes = {}) {
    return [=](OnnxBuilder& b) { b.node(op, inputs, attributes, "y"); };
  };
  const auto map = [](double (*f)(double)) {
    Floats values;
    for (const float x : kSixValues) values.push_back(static_cast<float>(f(x)));
    return values;
  };
  std::vector<Case> cases{
      {"AddBroadcast",
       13,
       [](auto& b) { b.node("Add", {"x", b.scalar(1)}, {}, "y"); },
       {2, 3},
       {2, 3, 4, 5, 6, 7}},
      {"PowIntegerExponent",
       13,
       [](auto& b) { b.node("Pow", {"x", b.integer(2)}, {}, "y"); },
       {2, 3},
       {1, 4, 9, 16, 25, 36}},
      {"MaxOfThree",
       13,
       [](auto& b) { b.node("Max", {"x", b.scalar(2), b.scalar(4)}, {}, "y"); },
       {2, 3},
       {4, 4, 4, 4, 5, 6}},
      {"MinOfOne", 13, one("Min", {"x"}), {2, 3}, kSixValues},
      {"Sum", 13, one("Sum", {"x", "x", "x"}), {2, 3}, {3, 6, 9, 12, 15, 18}},
      {"ClipAttributes",
       6,
       one("Clip", {"x"}, {{"min", 2.f}, {"max", 5.f}}),
       {2, 3},
       {2, 2, 3, 4, 5, 5}},
      {"ClipLowOnly",
       13,
       [](auto& b) { b.node("Clip", {"x", b.scalar(3)}, {}, "y"); },
       {2, 3},
       {3, 3, 3, 4, 5, 6}},
      {"ClipHighOnly",
       13,
       [](auto& b) { b.node("Clip", {"x", "", b.scalar(3)}, {}, "y"); },
       {2, 3},
       {1, 2, 3, 3, 3, 3}},
      {"ClipNothing", 13, one("Clip", {"x"}), {2, 3}, kSixValues},
      {"Less",
       13,
       [](auto& b) { b.node("Less", {"x", b.scalar(3)}, {}, "y"); },
       {2, 3},
       {1, 1, 0, 0, 0, 0}},
      {"WhereNot",
       13,
       [](auto& b) {
         const auto less = b.node("Less", {"x", b.scalar(3)});
         b.node("Where", {b.node("Not", {less}), "x", b.scalar(0)}, {}, "y");
       },
       {2, 3},
       {0, 0, 3, 4, 5, 6}},
      {"Gelu", 20, one("Gelu", {"x"}), {2, 3}, map([](double x) {
         return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
       })},
      {"GeluTanh",
       20,
       one("Gelu", {"x"}, {{"approximate", std::string("tanh")}}),
       {2, 3},
       map([](double x) {
         return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
       })},
      {"Swish", 24, one("Swish", {"x"}, {{"alpha", 2.f}}), {2, 3}, map([](double x) {
         return x / (1 + std::exp(-2 * x));
       })},
      {"Gemm",
       13,
       [](auto& b) {
         b.node("Gemm", {"x", b.floats("w", {2, 3}, Floats{1, 0, 0, 0, 1, 0}), b.scalar(10)},
                {{"transB", std::int64_t{1}}, {"alpha", 2.f}, {"beta", 0.5f}}, "y");
       },
       {2, 2},
       {7, 9, 13, 15}},
      {"MatMulHalfWeights",
       13,
       [](auto& b) {
         auto& w = *b.graph().add_initializer();
         w.set_name("w");
         w.set_data_type(TensorProto::FLOAT16);
         w.add_dims(3);
         w.add_dims(1);
         for (const int bits : {0x3c00, 0x4000, 0xbc00}) w.add_int32_data(bits);  // 1, 2, -1
         const auto half = b.node("Cast", {"x"}, {{"to", std::int64_t{TensorProto::FLOAT16}}});
         b.node("MatMul", {half, "w"}, {}, "y");
       },
       {2, 1},
       {2, 8}},
      {"WhereOnAComparisonOfHalfs",  // a bool, whatever was compared
       13,
       [](auto& b) {
         const auto half = b.node("Cast", {"x"}, {{"to", std::int64_t{TensorProto::FLOAT16}}});
         b.node("Where", {b.node("Equal", {half, half}), "x", b.scalar(0)}, {}, "y");
       },
       {2, 3},
       {1, 2, 3, 4, 5, 6}},
      {"SoftmaxLastAxisOpset11",
       11,
       one("Softmax", {"x"}, {{"axis", std::int64_t{1}}}),
       {2, 3},
       {0.0900306f, 0.244728f, 0.665241f, 0.0900306f, 0.244728f, 0.665241f}},
      {"SoftmaxFirstAxis",
       13,
       one("Softmax", {"x"}, {{"axis", std::int64_t{0}}}),
       {2, 3},
       {0.0474259f, 0.0474259f, 0.0474259f, 0.952574f, 0.952574f, 0.952574f}},
      {"ReduceMeanAttribute",
       13,
       one("ReduceMean", {"x"}, {{"axes", Ints{-1}}, {"keepdims", std::int64_t{0}}}),
       {2},
       {2, 5}},
      {"ReduceMeanOperand",
       18,
       [](auto& b) { b.node("ReduceMean", {"x", b.integers({0})}, {}, "y"); },
       {1, 3},
       {2.5f, 3.5f, 4.5f}},
      {"ReduceSumAll", 13, one("ReduceSum", {"x"}), {1, 1}, {21}},
      {"ReduceSumNoop",
       13,
       one("ReduceSum", {"x"}, {{"noop_with_empty_axes", std::int64_t{1}}}),
       {2, 3},
       kSixValues},
      {"ReduceMax", 11, one("ReduceMax", {"x"}, {{"axes", Ints{0}}}), {1, 3}, {4, 5, 6}},
      {"ArgMax",
       13,
       one("ArgMax", {"x"}, {{"axis", std::int64_t{-1}}, {"keepdims", std::int64_t{0}}}),
       {2},
       {2, 2}},
      {"RmsNormalization",
       23,
       [](auto& b) {
         b.node("RMSNormalization", {"x", b.floats("w", {3}, Floats{1, 2, 1})}, {{"epsilon", 0.f}},
                "y");
       },
       {2, 3},
       {0.46291f, 1.85164f, 1.38873f, 0.789542f, 1.973855f, 1.184313f}},
      {"LayerNormalization",
       17,
       [](auto& b) {
         b.node("LayerNormalization", {"x", b.floats("w", {3}, Floats{1, 2, 1})},
                {{"epsilon", 0.f}}, "y");
       },
       {2, 3},
       {-1.2247449f, 0, 1.2247449f, -1.2247449f, 0, 1.2247449f}},
  };
  const std::pair<const char*, double (*)(double)> unary[] = {
      {"Neg", [](double x) { return -x; }},
      {"Abs", [](double x) { return x; }},
      {"Sqrt", [](double x) { return std::sqrt(x); }},
      {"Reciprocal", [](double x) { return 1 / x; }},
      {"Exp", [](double x) { return std::exp(x); }},
      {"Log", [](double x) { return std::log(x); }},
      {"Sin", [](double x) { return std::sin(x); }},
      {"Cos", [](double x) { return std::cos(x); }},
      {"Tanh", [](double x) { return std::tanh(x); }},
      {"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"Erf", [](double x) { return std::erf(x); }},
      {"Relu", [](double x) { return x; }}};
  for (const auto& [op, f] : unary) cases.push_back({op, 13, one(op, {"x"}), {2, 3}, map(f)});
  return cases;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return info.param.name + "_" + std::to_string(info.param.opset) + "_" +
         std::to_string(info.index);
}
INSTANTIATE_TEST_SUITE_P(Movement, Operators, ::testing::ValuesIn(movement_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Shape, Operators, ::testing::ValuesIn(shape_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Math, Operators, ::testing::ValuesIn(math_cases()), case_name);

// repeat_interleave of a count that is a tensor, as torch.onnx writes it: the repeats of Tile are a
// OneHot row, so the sizes that follow are known only when that is followed.
TEST(ShapeArithmetic, FollowsTheRepeatsOfRepeatInterleave) {
  OnnxBuilder b(18);
  b.float_input("s", {std::int64_t{1}, "n", std::int64_t{2}});
  const auto count = b.node("Slice", {b.node("Shape", {"s"}), b.integers({-1}),
                                      b.integers({INT64_MAX}), b.integers({0})});
  const auto values = b.node("Concat", {b.integers({1}), count}, {{"axis", std::int64_t{0}}});
  const auto row = b.node("OneHot", {b.integers({2}), b.integer(4), values});
  const auto repeats = b.node("Reshape", {row, b.integers({-1})});
  const auto tiled = b.node("Tile", {b.unsqueeze("s", {2}), repeats});
  b.node("Flatten", {tiled}, {{"axis", std::int64_t{3}}}, "y");
  b.float_output("y", {});
  const auto model = import(b);
  ASSERT_TRUE(model.ok()) << errors(model.error());
  const ir::ValueId y = model->graph().outputs()[0];
  const ir::ValueId s = model->graph().inputs()[0];
  const auto rows = ir::mul(model->graph().value(s).type.dims[1], ir::Dim(2));
  EXPECT_EQ(model->graph().value(y).type.dims, (std::vector<ir::Dim>{*rows, 2}));
  const auto outputs =
      reference::evaluate(model->graph(), {{reference::f32_tensor({1, 2, 2}, {1, 2, 3, 4})}});
  ASSERT_TRUE(outputs.ok()) << errors(outputs.error());
  EXPECT_EQ(outputs->at(0).floats, (Floats{1, 2, 1, 2, 3, 4, 3, 4}));
}

}  // namespace
}  // namespace llmc

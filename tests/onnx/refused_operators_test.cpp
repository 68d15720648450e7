// Nodes that are refused, and graphs as a whole: names, order, several errors at once.

#include <gtest/gtest.h>

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

struct Refused {
  std::string name;
  std::int64_t opset;
  std::function<void(OnnxBuilder&)> build;
  ErrorKind kind;
  std::string message;
};

void PrintTo(const Refused& c, std::ostream* out) {
  *out << c.name;
}

class RefusedOperators : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedOperators, SayWhy) {
  const Refused& c = GetParam();
  OnnxBuilder b(c.opset);
  b.float_input("x", {std::int64_t{2}, std::int64_t{3}});
  b.float_input("s", {std::int64_t{1}, "n", std::int64_t{2}});
  c.build(b);
  b.float_output("y", {});
  const auto model = import(b);
  ASSERT_FALSE(model.ok());
  const Diagnostic& d = model.error().first();
  EXPECT_EQ(d.kind, c.kind) << format(d);
  EXPECT_EQ(std::filesystem::path(d.file).filename(), "m.onnx");
  EXPECT_FALSE(d.node.empty());
  EXPECT_FALSE(d.op.empty());
  EXPECT_NE(d.message.find(c.message), std::string::npos) << format(d);
}

std::vector<Refused> refused() {
  const auto one = [](std::string op, std::vector<std::string> inputs,
                      std::vector<testing::Attribute> attributes = {}) {
    return [=](OnnxBuilder& b) { b.node(op, inputs, attributes, "y"); };
  };
  const auto unsupported = ErrorKind::kUnsupported, bad = ErrorKind::kBadInput;
  return {
      {"Unknown", 15, one("NonMaxSuppression", {"x", "x"}), unsupported,
       "not a supported operator"},
      {"OldErf", 8, one("Erf", {"x"}), unsupported, "operator set 8 (only 9 and later)"},
      {"UnknownAttribute", 15, one("Relu", {"x"}, {{"slope", 1.f}}), unsupported,
       "attribute 'slope'"},
      {"AttributeType", 15, one("Softmax", {"x"}, {{"axis", 1.f}}), bad,
       "attribute 'axis' has the wrong type"},
      {"AxisRange", 15, one("Softmax", {"x"}, {{"axis", std::int64_t{2}}}), bad, "axis 2"},
      {"AxisTwice", 11, one("Unsqueeze", {"x"}, {{"axes", Ints{0, 0}}}), bad, "duplicate axis"},
      {"HugeRank", 11, one("Unsqueeze", {"x"}, {{"axes", Ints{0, 1, 2, 3, 4, 5, 6}}}), bad,
       "rank 9"},
      {"MissingOperand", 15, one("MatMul", {"x"}), bad, "has 1 operands, not 2"},
      {"EmptyOperand", 15, one("MatMul", {"x", ""}), bad, "operand 1 is missing"},
      {"TooManyOperands", 15, one("Relu", {"x", "x"}), bad, "has 2 operands, not 1"},
      {"ShapesDoNotFit", 15, one("MatMul", {"x", "x"}), bad, ""},
      {"CastToString", 15, one("Cast", {"x"}, {{"to", std::int64_t{TensorProto::STRING}}}),
       unsupported, "string"},
      {"CastWithoutTarget", 15, one("Cast", {"x"}), unsupported, "a cast to"},
      {"ConcatWithoutAxis", 15, one("Concat", {"x", "x"}), bad, "'axis' is missing"},
      {"DropoutInTraining", 13,
       [](auto& b) {
         auto& on = *b.graph().add_initializer();
         on.set_name("on");
         on.set_data_type(TensorProto::BOOL);
         on.add_int32_data(1);
         b.node("Dropout", {"x", "", "on"}, {}, "y");
       },
       unsupported, "training"},
      {"SplitSizes", 13,
       [](auto& b) { b.raw_node("Split", {"x", b.integers({1, 1, 1})}, {"a", "y"}); }, bad,
       "3 part sizes for 2 outputs"},
      {"SplitSum", 13, [](auto& b) { b.raw_node("Split", {"x", b.integers({1, 5})}, {"a", "y"}); },
       bad, ""},
      {"SplitNegative", 13,
       [](auto& b) { b.raw_node("Split", {"x", b.integers({-1, 3})}, {"a", "y"}); }, bad,
       "negative size"},
      {"SplitUnknown", 13,
       [](auto& b) { b.raw_node("Split", {"s"}, {"a", "y"}, {{"axis", std::int64_t{1}}}); },
       unsupported, "unknown size"},
      {"TransposePerm", 13, one("Transpose", {"x"}, {{"perm", Ints{0, 0}}}), bad, ""},
      {"TransposeOutside", 13, one("Transpose", {"x"}, {{"perm", Ints{0, -3}}}), bad, ""},
      {"GraphAttribute", 15,
       [](auto& b) {
         auto& node = b.raw_node("If", {"x"}, {"y"});
         auto& attribute = *node.add_attribute();
         attribute.set_name("then_branch");
         attribute.set_type(onnx::AttributeProto::GRAPH);
         attribute.mutable_g()->set_name("inner");
       },
       unsupported, "not constant"},
      {"Loop", 15,
       [](auto& b) {
         auto& attribute = *b.raw_node("Loop", {"x"}, {"y"}).add_attribute();
         attribute.set_name("body");
         attribute.set_type(onnx::AttributeProto::GRAPH);
         attribute.mutable_g()->set_name("inner");
       },
       unsupported, "control flow"},
      {"FunctionWithoutParameter", 15,
       [](auto& b) {
         auto& function = *b.model.add_functions();
         function.set_name("Local");
         function.set_domain("local");
         b.raw_node("Local", {"x"}, {"y"}).set_domain("local");
       },
       bad, "fewer parameters"},
      {"FunctionThatCallsItself", 15,
       [](auto& b) {
         auto& function = *b.model.add_functions();
         function.set_name("Local");
         function.set_domain("local");
         function.add_input("a");
         function.add_output("c");
         auto& inner = *function.add_node();
         inner.set_op_type("Local");
         inner.set_domain("local");
         inner.add_input("a");
         inner.add_output("c");
         b.raw_node("Local", {"x"}, {"y"}).set_domain("local");
       },
       bad, "calls itself"},
      {"RankZeroAxis", 15, [](auto& b) { b.node("Softmax", {b.scalar(1)}, {}, "y"); }, bad,
       "rank 0"},
      {"EinsumTerms", 12, one("Einsum", {"x"}, {{"equation", std::string("ij,jk->ik")}}), bad,
       "2 terms for 1 operands"},
      {"EinsumRank", 12, one("Einsum", {"x"}, {{"equation", std::string("ijk->i")}}), bad,
       "does not fit"},
      {"EinsumResult", 12, one("Einsum", {"x"}, {{"equation", std::string("ij->k")}}), bad,
       "unknown or repeated dim"},
      {"EinsumText", 12, one("Einsum", {"x"}, {{"equation", std::string("i;j")}}), bad,
       "does not fit"},
      {"ScatterReduction", 16,
       [](auto& b) {
         b.node("ScatterElements", {"x", b.integers({0}), "x"},
                {{"reduction", std::string("mean")}}, "y");
       },
       bad, "'reduction'"},
      {"PadMode", 13,
       [](auto& b) {
         b.node("Pad", {"x", b.integers({0, 0, 0, 0})}, {{"mode", std::string("circular")}}, "y");
       },
       bad, "'mode'"},
      {"AttentionHeads", 23,
       [](auto& b) {
         b.node("Attention", {"s", "s", "s"},
                {{"q_num_heads", std::int64_t{3}}, {"kv_num_heads", std::int64_t{1}}}, "y");
       },
       bad, "q_num_heads"},
      {"AttentionGroups", 23,
       [](auto& b) {
         b.node("Attention", {"s", "s", "s"},
                {{"q_num_heads", std::int64_t{1}}, {"kv_num_heads", std::int64_t{2}}}, "y");
       },
       bad, "not a multiple"},
      {"RotaryWidth", 23,
       [](auto& b) {
         b.node("RotaryEmbedding", {"s", "s", "s"}, {{"num_heads", std::int64_t{1}}}, "y");
       },
       bad, "wider than a head"},
      {"QuantizeToFloat8", 21,
       [](auto& b) {
         b.node("QuantizeLinear", {"x", b.scalar(1)}, {{"output_dtype", std::int64_t{17}}}, "y");
       },
       unsupported, "float8"},
      {"BlockOfAMatrix", 13, one("DepthToSpace", {"x"}, {{"blocksize", std::int64_t{2}}}), bad,
       "x does not have 4 dims"},
      {"NoBlock", 13,
       [](auto& b) {
         b.node("SpaceToDepth", {b.unsqueeze("x", {0, 1})}, {{"blocksize", std::int64_t{0}}}, "y");
       },
       bad, "attribute 'blocksize' is out of range"},
      {"ChannelsOfBlocks", 13,
       [](auto& b) {
         b.node("DepthToSpace", {b.unsqueeze("x", {0, 1})}, {{"blocksize", std::int64_t{2}}}, "y");
       },
       bad, "not a multiple of the square"},
      {"EyeOfAVector", 13, [](auto& b) { b.node("EyeLike", {b.integers({1})}, {}, "y"); }, bad,
       "x is not a matrix"},
      {"GeluKind", 20, one("Gelu", {"x"}, {{"approximate", std::string("cubic")}}), bad,
       "'approximate'"},
      // What other operator sets of the operator have is refused, not left out.
      {"ClipAttributes", 11, one("Clip", {"x"}, {{"min", 0.f}, {"max", 1.f}}), unsupported,
       "attribute 'min', which does not belong to Clip of operator set 11"},
      {"ClipOperands", 10, [](auto& b) { b.node("Clip", {"x", b.scalar(0)}, {}, "y"); },
       unsupported, "operand 1, which does not belong to Clip of operator set 10"},
      {"ReduceAttribute", 18, one("ReduceMean", {"x"}, {{"axes", Ints{1}}}), unsupported,
       "attribute 'axes', which does not belong to ReduceMean of operator set 18"},
      {"ReduceSumAttribute", 13, one("ReduceSum", {"x"}, {{"axes", Ints{1}}}), unsupported,
       "attribute 'axes'"},
      {"ReduceOperand", 13, [](auto& b) { b.node("ReduceMean", {"x", b.integers({1})}, {}, "y"); },
       unsupported, "operand 1, which does not belong to ReduceMean of operator set 13"},
      {"ReduceNoop", 13, one("ReduceMax", {"x"}, {{"noop_with_empty_axes", std::int64_t{1}}}),
       unsupported, "'noop_with_empty_axes'"},
      {"SplitAttribute", 18,
       [](auto& b) {
         b.raw_node("Split", {"x"}, {"a", "y"}, {{"axis", std::int64_t{1}}, {"split", Ints{1, 2}}});
       },
       unsupported, "attribute 'split'"},
      {"SplitOperand", 11,
       [](auto& b) { b.raw_node("Split", {"x", b.integers({1, 1})}, {"a", "y"}); }, unsupported,
       "operand 1, which does not belong to Split of operator set 11"},
      {"SqueezeAttribute", 13, one("Squeeze", {"x"}, {{"axes", Ints{0}}}), unsupported, "'axes'"},
      {"SliceAttributes", 13,
       [](auto& b) {
         b.node("Slice", {"x", b.integers({0}), b.integers({1})}, {{"axes", Ints{1}}}, "y");
       },
       unsupported, "'axes'"},
      {"TopKAttribute", 11,
       [](auto& b) {
         b.raw_node("TopK", {"x", b.integers({1})}, {"y", "i"}, {{"k", std::int64_t{2}}});
       },
       unsupported, "'k'"},
      {"PadOperand", 9,
       [](auto& b) {
         b.node("Pad", {"x", b.integers({1, 1, 1, 1})}, {{"pads", Ints{0, 0, 0, 0}}}, "y");
       },
       unsupported, "operand 1"},
      {"DropoutRatio", 13, one("Dropout", {"x"}, {{"ratio", 0.5f}}), unsupported, "'ratio'"},
      {"ConstantWithoutValue", 15, one("Constant", {}), bad, "'value' is missing"},
      {"RunTimeAxes", 13,
       [](auto& b) {
         b.node("Squeeze", {"s", b.node("Cast", {"x"}, {{"to", std::int64_t{7}}})}, {}, "y");
       },
       unsupported, "not constant"},
  };
}

INSTANTIATE_TEST_SUITE_P(All, RefusedOperators, ::testing::ValuesIn(refused()),
                         [](const auto& info) { return info.param.name; });

// All unsupported nodes are reported together, including those found during conversion.
TEST(EmptyOperands, AreAHint) {
  OnnxBuilder b(17);
  b.float_input("x", {std::int64_t{1}, std::int64_t{1}, std::int64_t{0}});
  b.node("Conv", {"x", b.floats("w", {4, 1, 10}, Floats(40, 0.1F))}, {}, "y");
  b.float_output("y", {});
  const auto model = import(b);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().first().hint,
            "an operand has no elements: export the model with sizes of at least 1");
}

TEST(UnsupportedOperators, AreReportedTogether) {
  OnnxBuilder b(11);
  b.float_input("x", {std::int64_t{2}, std::int64_t{3}, std::int64_t{4}});
  const auto a = b.node("CumSum", {"x", "x"});
  const auto c = b.node("Cast", {"x"}, {{"to", std::int64_t{TensorProto::STRING}}});
  b.node("Add", {a, c}, {}, "y");
  b.float_output("y", {});
  const auto model = import(b);
  ASSERT_FALSE(model.ok());
  ASSERT_EQ(model.error().diagnostics().size(), 2u);
  EXPECT_EQ(model.error().diagnostics()[0].op, "CumSum");
  EXPECT_EQ(model.error().diagnostics()[1].op, "Cast");
}

TEST(GenericGraph, OutputsKeepTheirNames) {
  OnnxBuilder b(15);
  b.float_input("x", {"n"});
  b.node("Identity", {"x"}, {}, "same");
  const auto twice = b.node("Add", {"x", "x"}, {}, "twice");
  b.node("Identity", {twice}, {}, "again");
  for (const char* name : {"same", "twice", "again"}) b.float_output(name, {"n"});
  const auto model = import(b);
  ASSERT_TRUE(model.ok()) << errors(model.error());
  std::vector<std::string> names;
  for (const auto id : model->graph().outputs()) names.push_back(model->graph().value(id).name);
  EXPECT_EQ(names, (std::vector<std::string>{"same", "twice", "again"}));
  ASSERT_TRUE(ir::verify(model->graph()).ok());
}

TEST(GenericGraph, NodesMayStandInAnyOrder) {
  OnnxBuilder b(15);
  b.float_input("x", {"n"});
  b.node("Neg", {"middle"}, {}, "y");
  b.node("Abs", {"x"}, {}, "middle");
  b.float_output("y", {"n"});
  const auto model = import(b);
  ASSERT_TRUE(model.ok()) << errors(model.error());
  const auto outputs =
      reference::evaluate(model->graph(), std::vector{reference::f32_tensor({2}, {-3, 4})});
  ASSERT_TRUE(outputs.ok());
  EXPECT_EQ(outputs->at(0).floats, (Floats{-3, -4}));
}

}  // namespace
}  // namespace llmc

// Functions local to a model, and If: gone after import.

#include <gtest/gtest.h>

#include "compiler/onnx/model.h"
#include "compiler/reference/interpreter.h"
#include "tests/support_onnx/onnx_builder.h"

namespace llmc {
namespace {

using onnx::AttributeProto;
using onnx::TensorProto;
using testing::OnnxBuilder;
using Floats = std::vector<float>;

/// y of a graph with x f32[2].
Result<Floats> run(const OnnxBuilder& b, const Floats& x) {
  const testing::TemporaryFolder folder;
  b.save(folder.path() / "m.onnx");
  LLMC_TRY(const auto model, importer::import_model(folder.path() / "m.onnx"));
  const std::vector<reference::Tensor> inputs{
      reference::f32_tensor({static_cast<std::int64_t>(x.size())}, x)};
  LLMC_TRY(const auto outputs, reference::evaluate(model.graph(), inputs));
  return outputs[0].floats;
}

AttributeProto reference_to(const std::string& name, const std::string& outer,
                            AttributeProto::AttributeType type) {
  AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_ref_attr_name(outer);
  attribute.set_type(type);
  return attribute;
}

onnx::NodeProto& add_node(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                          const std::string& op, const std::vector<std::string>& inputs,
                          const std::string& output) {
  auto& node = *nodes.Add();
  node.set_op_type(op);
  for (const auto& name : inputs) node.add_input(name);
  node.add_output(output);
  return node;
}

/// Axpy(a, b) {alpha} = alpha * a + b; Twice(a) = Axpy(a, a) {alpha = factor}.
OnnxBuilder functions() {
  OnnxBuilder b(15);
  b.float_input("x", {std::int64_t{2}});
  b.float_output("y", {std::int64_t{2}});
  auto& axpy = *b.model.add_functions();
  axpy.set_name("Axpy");
  axpy.set_domain("local");
  axpy.add_input("a");
  axpy.add_input("b");
  axpy.add_output("y");
  axpy.add_attribute("alpha");
  *add_node(*axpy.mutable_node(), "Constant", {}, "t").add_attribute() =
      reference_to("value_float", "alpha", AttributeProto::FLOAT);
  add_node(*axpy.mutable_node(), "Mul", {"a", "t"}, "x");
  add_node(*axpy.mutable_node(), "Add", {"x", "b"}, "y");
  auto& twice = *b.model.add_functions();
  twice.set_name("Twice");
  twice.set_domain("local");
  twice.add_input("a");
  twice.add_output("r");
  twice.add_attribute("factor");
  auto& call = add_node(*twice.mutable_node(), "Axpy", {"a", "a"}, "r");
  call.set_domain("local");
  *call.add_attribute() = reference_to("alpha", "factor", AttributeProto::FLOAT);
  return b;
}

TEST(LocalFunctions, AreInlinedWithTheirAttributes) {
  OnnxBuilder b = functions();
  b.raw_node("Twice", {"x"}, {"m"}, {{"factor", 3.0f}}).set_domain("local");
  b.raw_node("Twice", {"m"}, {"y"}, {{"factor", 0.5f}}).set_domain("local");
  const auto y = run(b, {1, -2});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(*y, (Floats{6, -12}));
}

TEST(LocalFunctions, MayBeCalledInsideABranch) {
  OnnxBuilder b = functions();
  auto& node = b.raw_node("If", {b.node("Constant", {}, {{"value_int", std::int64_t{0}}})}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(AttributeProto::GRAPH);
    auto& graph = *attribute.mutable_g();
    graph.set_name(name);
    auto& call = add_node(*graph.mutable_node(), "Twice", {"x"}, "r");
    call.set_domain("local");
    auto& factor = *call.add_attribute();
    factor.set_name("factor");
    factor.set_type(AttributeProto::FLOAT);
    factor.set_f(name[0] == 't' ? 10 : 20);
    graph.add_output()->set_name("r");
  }
  const auto y = run(b, {1, 2});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(*y, (Floats{21, 42}));
}

/// y = x split by a function of operator set 11, whose first result nobody wants; the graph itself,
/// of set 18, does the same with an operand.
TEST(LocalFunctions, KeepTheirOperatorSetToThemselves) {
  for (const bool first_wanted : {false, true}) {
    OnnxBuilder b(18);
    b.float_input("x", {std::int64_t{3}});
    b.float_output("y", {});
    b.float_output("z", {});
    auto& function = *b.model.add_functions();
    function.set_name("Rest");
    function.set_domain("local");
    function.add_input("a");
    function.add_output("r");
    auto& set = *function.add_opset_import();
    set.set_version(11);
    auto& inner = *function.add_node();
    inner.set_op_type("Split");
    inner.add_input("a");
    inner.add_output("");
    inner.add_output("r");
    auto& split = *inner.add_attribute();
    split.set_name("split");
    split.set_type(AttributeProto::INTS);
    split.add_ints(1);
    split.add_ints(2);
    b.raw_node("Rest", {"x"}, {"y"}).set_domain("local");
    b.raw_node("Split", {"x", b.integers({1, 2})}, {first_wanted ? "f" : "", "z"});
    const auto y = run(b, {1, 2, 3});
    ASSERT_TRUE(y.ok()) << format(y.error().first());
    EXPECT_EQ(*y, (Floats{2, 3}));
  }
}

/// Calls of a function under one long name, thousands of times, in levels that double.
TEST(LocalFunctions, ThatExpandWithoutEndAreStopped) {
  OnnxBuilder b(18);
  b.float_input("x", {std::int64_t{1}});
  b.float_output("y", {});
  for (int level = 0; level < 16; ++level) {
    auto& function = *b.model.add_functions();
    function.set_name("F" + std::to_string(level));
    function.set_domain("local");
    function.add_input("a");
    function.add_output("r");
    for (const bool second : {false, true}) {
      auto& call = *function.add_node();
      call.set_op_type(level == 0 ? "Neg" : "F" + std::to_string(level - 1));
      call.set_domain(level == 0 ? "" : "local");
      call.set_name("same");
      call.add_input(second ? "t" : "a");
      call.add_output(second ? "r" : "t");
    }
  }
  auto& call = b.raw_node("F15", {"x"}, {"y"});
  call.set_domain("local");
  call.set_name(std::string(100000, 'n'));
  const testing::TemporaryFolder folder;
  b.save(folder.path() / "m.onnx");
  importer::ImportOptions options;
  options.max_structure_bytes = 4 << 20;
  const auto model = importer::import_model(folder.path() / "m.onnx", options);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().first().kind, ErrorKind::kOverBudget) << format(model.error().first());
}

/// If(rank of x == rank) y = x + inner else y = x * Unheard-of(x).
OnnxBuilder branches(std::int64_t wanted) {
  OnnxBuilder b(15);
  b.float_input("x", {std::int64_t{2}});
  b.float_output("y", {std::int64_t{2}});
  const auto size = b.node("Shape", {"x"});
  const auto condition = b.node("Equal", {size, b.integers({wanted})});
  const auto outer = b.node("Neg", {"x"});
  auto& node = b.raw_node("If", {condition}, {"y"});
  for (const char* name : {"else_branch", "then_branch"}) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(AttributeProto::GRAPH);
    auto& graph = *attribute.mutable_g();
    graph.set_name(name);
    auto& tensor = *graph.add_initializer();
    tensor.set_name("c");
    tensor.set_data_type(TensorProto::FLOAT);
    tensor.add_float_data(5);
    add_node(*graph.mutable_node(), name[0] == 't' ? "Add" : "UnheardOf", {outer, "c"}, "r");
    graph.add_output()->set_name("r");
  }
  return b;
}

TEST(If, TakesTheBranchOfAKnownCondition) {
  const auto y = run(branches(2), {1, 2});
  ASSERT_TRUE(y.ok()) << format(y.error().first());
  EXPECT_EQ(*y, (Floats{4, 3}));
}

TEST(If, LooksAtTheTakenBranchOnly) {
  const auto y = run(branches(3), {1, 2});
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(y.error().first().op, "UnheardOf");
}

TEST(If, MustNotMakeWhatExists) {
  OnnxBuilder b = branches(2);
  auto& node = *b.graph().mutable_node(b.graph().node_size() - 1);
  for (auto& attribute : *node.mutable_attribute()) {
    attribute.mutable_g()->mutable_node(0)->set_output(0, "x");
    attribute.mutable_g()->mutable_output(0)->set_name("x");
  }
  const auto y = run(b, {1, 2});
  ASSERT_FALSE(y.ok());
  EXPECT_NE(y.error().first().message.find("exists already"), std::string::npos);
}

}  // namespace
}  // namespace llmc

// Errors of lower() for graphs that it cannot lower.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/text.h"
#include "compiler/plan/lower.h"
#include "compiler/plan/program.h"
#include "tests/plan/stage_graph.h"

namespace llmc::plan {
namespace {

using ::testing::HasSubstr;
using tests::stage_graph;

/// Returns a Softmax over the tokens, which no stage computes: rows of a chunk are independent.
ir::Softmax over_tokens(const ir::TensorType& type) {
  return {.axis = static_cast<std::int64_t>(*row_axis(type))};
}
ir::CumSum sum_over_tokens(const ir::TensorType& type) {
  return {.axis = static_cast<std::int64_t>(*row_axis(type))};
}

TEST(Lower, ReportsEveryUnsupportedOperatorAtOnce) {
  ir::Graph graph = stage_graph({.layers = 1, .rolled = false});
  const ir::ValueId x = graph.nodes()[1].outputs[0];
  const auto type = graph.value(x).type;
  graph.add_output(graph.append(over_tokens(type), {x}, type, {"block_0.onnx", "/odd/Softmax"}));
  graph.add_output(graph.append(sum_over_tokens(type), {x}, type, {"block_0.onnx", "/odd/CumSum"}));
  const auto result = lower(graph, {});
  ASSERT_FALSE(result.ok());
  ASSERT_EQ(result.error().diagnostics().size(), 2u);
  EXPECT_EQ(result.error().first().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(result.error().first().node, "/odd/Softmax");
  EXPECT_EQ(result.error().diagnostics()[1].node, "/odd/CumSum");
}

TEST(Lower, NamesCausesWithoutConsequences) {
  ir::Graph graph = stage_graph({.layers = 1, .rolled = false});
  const ir::ValueId x = graph.nodes()[1].outputs[0];
  const auto type = graph.value(x).type;
  const auto append = [&](ir::Op op, std::vector<ir::ValueId> inputs, const char* node) {
    const ir::ValueId y =
        graph.append(std::move(op), std::move(inputs), type, {"block_0.onnx", node});
    graph.add_output(y);
    return y;
  };
  const ir::ValueId first = append(over_tokens(type), {x}, "/first");
  const ir::ValueId norm = append(ir::Binary{ir::BinaryKind::kAdd}, {first, x}, "/reads-first");
  append(ir::Unary{ir::UnaryKind::kLog}, {norm}, "/reads-it-too");
  append(over_tokens(type), {x}, "/same-as-first");
  append(sum_over_tokens(type), {x}, "/second");
  const auto result = lower(graph, {});
  ASSERT_FALSE(result.ok());
  std::vector<std::string> nodes;
  for (const Diagnostic& d : result.error().diagnostics()) nodes.push_back(d.node);
  EXPECT_EQ(nodes, (std::vector<std::string>{"/first", "/second"}));
  EXPECT_THAT(result.error().first().message, HasSubstr("(1 more node)"));
}

/// Changes the body of a rolled graph's loop by edit(body), and returns the loop.
template <class Edit>
std::vector<ir::Node>::iterator edit_loop(ir::Graph& graph, Edit edit) {
  const auto loop = std::ranges::find_if(graph.mutable_nodes(), [](const ir::Node& node) {
    return ir::op_as<ir::Loop>(&node) != nullptr;
  });
  ir::Loop op = *ir::op_as<ir::Loop>(&*loop);
  auto body = std::make_shared<ir::Graph>(*op.body);
  edit(*body);
  op.body = std::move(body);
  loop->op = std::move(op);
  return loop;
}

/// Returns the nodes that errors name if the loop's operand `operand`, which is input `input` of
/// its body, cannot be lowered. The body has one node that reads it and one node with a separate
/// error.
std::vector<std::string> nodes_with_errors(std::size_t operand, std::size_t input) {
  ir::Graph graph = stage_graph({.layers = 2, .rolled = true});
  const auto loop = edit_loop(graph, [&](ir::Graph& body) {
    const auto append_needed = [&](ir::Op made, ir::ValueId value, const char* node) {
      const ir::TensorType& type = body.value(value).type;
      body.add_output(body.append(std::move(made), {value}, type, {"block_0.onnx", node}));
    };
    append_needed(ir::Unary{ir::UnaryKind::kLog}, body.inputs()[input], "/reads-failed");
    append_needed(ir::Rope{}, body.nodes().front().outputs[0], "/own-cause");  // of a parameter
  });
  const ir::ValueId good = loop->inputs[operand];
  const ir::ValueId bad = graph.add_value({"", graph.value(good).type});
  loop->inputs[operand] = bad;
  const ir::TensorType type = graph.value(good).type;
  const ir::Op fails = row_axis(type) ? ir::Op(over_tokens(type)) : ir::Op(ir::Softmax{});
  graph.mutable_nodes().insert(loop, ir::Node{fails, {good}, {bad}, {"x.onnx", "/first"}});
  const auto result = lower(graph, {});
  std::vector<std::string> names;
  if (result.ok()) return names;
  for (const Diagnostic& d : result.error().diagnostics()) names.push_back(d.node);
  return names;
}

TEST(Lower, ALoopThatReadsAFailedValueStillReportsItsOwnCauses) {
  const std::vector<std::string> causes{"/first", "/own-cause"};
  EXPECT_EQ(nodes_with_errors(0, 0), causes) << "what it carries";
  EXPECT_EQ(nodes_with_errors(1, 1), causes) << "a layer's cache";
  EXPECT_EQ(nodes_with_errors(3, 2), causes) << "positions";
}

TEST(Lower, NamesASplitThatFitsOneTextOnly) {
  const auto graph = ir::parse(R"(graph @parts(%x: f32[2*seq, 4]) {
  %a, %b = split %x {axis = -2, sizes = [2, 3]}
  return %a, %b
}
)");
  ASSERT_TRUE(graph.ok());
  const auto result = lower(*graph, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().first().message,
            "divides f32[2*seq, 4] along axis 0 into parts of 2, 3, which fit one text only");
}

TEST(Lower, NamesASplitInALoop) {
  ir::Graph graph = stage_graph({.layers = 2, .rolled = true});
  edit_loop(graph, [](ir::Graph& body) {
    const ir::ValueId rows = body.inputs()[0];  // the carried value
    const ir::TensorType& type = body.value(rows).type;
    const std::vector<std::int64_t> sizes(9, 1);
    body.append(ir::Split{static_cast<std::int64_t>(*row_axis(type)), sizes}, {rows}, type,
                {"block_0.onnx", "/experts/Split"});
  });
  const auto result = lower(graph, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().first().node, "/experts/Split");
  EXPECT_THAT(result.error().first().message, HasSubstr("parts of 1, 1, 1, 1, 1, 1, 1, 1, …,"));
}

}  // namespace
}  // namespace llmc::plan

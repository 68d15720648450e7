// What lower() reports for graphs that it cannot lower.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "compiler/plan/lower.h"
#include "compiler/plan/program.h"
#include "tests/plan/stage_graph.h"

namespace llmc::plan {
namespace {

using ::testing::HasSubstr;
using tests::stage_graph;

TEST(Lower, ReportsEveryUnsupportedOperatorAtOnce) {
  ir::Graph graph = stage_graph({.layers = 1, .rolled = false});
  const ir::ValueId x = graph.nodes()[1].outputs[0];
  const auto type = graph.value(x).type;
  graph.append(ir::Softmax{}, {x}, type, {"block_0.onnx", "/odd/Softmax"});
  graph.append(ir::Unary{ir::UnaryKind::kLog}, {x}, type, {"block_0.onnx", "/odd/Log"});
  const auto result = lower(graph, {});
  ASSERT_FALSE(result.ok());
  ASSERT_EQ(result.error().diagnostics().size(), 2u);
  EXPECT_EQ(result.error().first().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(result.error().first().node, "/odd/Softmax");
  EXPECT_EQ(result.error().diagnostics()[1].node, "/odd/Log");
}

TEST(Lower, NamesCausesBeforeConsequences) {
  ir::Graph graph = stage_graph({.layers = 1, .rolled = false});
  const ir::ValueId x = graph.nodes()[1].outputs[0];
  const auto type = graph.value(x).type;
  const auto append = [&](ir::Op op, std::vector<ir::ValueId> inputs, const char* node) {
    return graph.append(std::move(op), std::move(inputs), type, {"block_0.onnx", node});
  };
  const ir::ValueId first = append(ir::Softmax{}, {x}, "/first");
  const ir::ValueId norm = append(ir::Binary{ir::BinaryKind::kAdd}, {first, x}, "/reads-first");
  append(ir::Unary{ir::UnaryKind::kLog}, {norm}, "/reads-it-too");
  append(ir::Softmax{}, {norm}, "/same-as-first");
  append(ir::CumSum{}, {norm}, "/never-possible");
  append(ir::Unary{ir::UnaryKind::kLog}, {x}, "/second");
  const auto result = lower(graph, {});
  ASSERT_FALSE(result.ok());
  std::vector<std::string> nodes;
  for (const Diagnostic& d : result.error().diagnostics()) nodes.push_back(d.node);
  EXPECT_EQ(nodes, (std::vector<std::string>{"/first", "/second", "/never-possible"}));
  EXPECT_THAT(result.error().first().message, HasSubstr("(1 more node)"));
}

/// The nodes that errors name when the loop's operand `operand`, input `input` of its body, could
/// not be lowered, and the body has one node that reads it and one with a fault of its own.
std::vector<std::string> nodes_with_errors(std::size_t operand, std::size_t input) {
  ir::Graph graph = stage_graph({.layers = 2, .rolled = true});
  std::vector<ir::Node>& nodes = graph.mutable_nodes();
  const auto loop = std::ranges::find_if(
      nodes, [](const ir::Node& node) { return ir::op_as<ir::Loop>(&node) != nullptr; });
  ir::Loop op = *ir::op_as<ir::Loop>(&*loop);
  auto body = std::make_shared<ir::Graph>(*op.body);
  const auto append_log = [&](ir::ValueId value, const ir::Origin& origin) {
    body->append(ir::Unary{ir::UnaryKind::kLog}, {value}, body->value(value).type, origin);
  };
  // In two files, so that the errors are not merged.
  append_log(body->inputs()[input], {"block_0.onnx", "/reads-failed"});
  append_log(body->nodes().front().outputs[0], {"block_1.onnx", "/own-cause"});
  op.body = body;
  loop->op = std::move(op);
  const ir::ValueId good = loop->inputs[operand];
  const ir::ValueId bad = graph.add_value({"", graph.value(good).type});
  loop->inputs[operand] = bad;
  nodes.insert(loop, ir::Node{ir::Softmax{}, {good}, {bad}, {"x.onnx", "/first"}});
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

}  // namespace
}  // namespace llmc::plan

#include "compiler/plan/embeddings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/plan/stage_graph.h"

/// Tests which decoders accept rows in place of those of their token embedding.
namespace llmc::plan {
namespace {

using tests::stage_graph;

std::uint64_t width_of(const ir::Graph& graph) {
  const auto program = lower(graph, {});
  if (!program.ok()) ADD_FAILURE() << llmc::format(program.error().first());
  return embedding_width(*program);
}

/// Replaces the embedded tokens by the result of the last of the nodes `nodes(graph, embedded)`.
template <class F>
ir::Graph with_nodes_after_embedding(const F& nodes) {
  ir::Graph graph = stage_graph({.layers = 1, .rolled = false});
  const auto is_embedding = [](const ir::Node& n) {
    return ir::op_as<ir::Embedding>(&n) != nullptr;
  };
  const ir::ValueId looked_up = std::ranges::find_if(graph.nodes(), is_embedding)->outputs[0];
  const ir::ValueId result = graph.add_value({"", graph.value(looked_up).type});
  for (ir::Node& node : graph.mutable_nodes()) std::ranges::replace(node.inputs, looked_up, result);
  std::vector<ir::Node> added = nodes(graph, looked_up);
  added.back().outputs = {result};
  auto& all = graph.mutable_nodes();
  all.insert(std::ranges::find_if(all, is_embedding) + 1, added.begin(), added.end());
  return graph;
}

ir::Graph with_tanh(const char* file) {
  return with_nodes_after_embedding([&](ir::Graph&, ir::ValueId x) {
    return std::vector<ir::Node>{{ir::Unary{ir::UnaryKind::kTanh}, {x}, {}, {file, "Tanh"}}};
  });
}

TEST(Embeddings, EnterInPlaceOfThoseOfTheTable) {
  EXPECT_EQ(width_of(stage_graph()), 64u);
  EXPECT_EQ(width_of(stage_graph({.rolled = false})), 64u);
}

TEST(Embeddings, AFileOfTheEmbeddingThatComputesTakesNone) {
  EXPECT_EQ(width_of(with_tanh("decoder.onnx")), 64u) << "the rows are given before it";
  EXPECT_EQ(width_of(with_tanh("embedding.onnx")), 0u);
  ir::Graph whole = with_tanh("model.onnx");
  for (ir::Node& node : whole.mutable_nodes()) node.origin.file = "model.onnx";
  EXPECT_EQ(width_of(whole), 64u) << "one file";
}

TEST(Embeddings, IdsThatAreReadElsewhereAllowNone) {
  const ir::Graph graph = with_nodes_after_embedding([](ir::Graph& g, ir::ValueId x) {
    const ir::Dim seq = ir::Dim::symbol("seq");
    const ir::ValueId numbers = g.add_value({"", {ir::ElementType::kF32, {seq}}});
    const ir::ValueId column = g.add_value({"", {ir::ElementType::kF32, {seq, 1}}});
    return std::vector<ir::Node>{{ir::Cast{ir::ElementType::kF32}, {g.inputs()[0]}, {numbers}, {}},
                                 {ir::Unsqueeze{{1}}, {numbers}, {column}, {}},
                                 {ir::Binary{ir::BinaryKind::kAdd}, {x, column}, {}, {}}};
  });
  EXPECT_EQ(width_of(graph), 0u);
}

}  // namespace
}  // namespace llmc::plan

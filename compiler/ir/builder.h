#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/shape_value.h"

namespace llmc::ir {

/// Appends nodes to a graph and infers their types. It keeps the shape values up to date, so that
/// each new node needs one inference. It makes value names unique with a suffix.
class Builder {
 public:
  Builder();
  /// Starts from an existing graph.
  explicit Builder(Graph graph);

  const Graph& graph() const { return graph_; }
  Graph& mutable_graph() { return graph_; }
  const ShapeValues& shape_values() const { return known_; }

  ValueId input(std::string name, TensorType type, InputKind kind = InputKind::kNone,
                std::int64_t layer = 0);
  ValueId constant(ConstantPtr data, std::string name = {}, Origin origin = {});
  /// Appends a node and returns its outputs. Outputs without an element in `names` have no name.
  /// Fails like infer(), without changing the graph.
  Result<std::vector<ValueId>> add(Op op, std::vector<ValueId> inputs, Origin origin = {},
                                   std::vector<std::string> names = {});
  /// Appends a node with one output (LLMC_CHECK) and returns the output. Fails like infer().
  Result<ValueId> add_one(Op op, std::vector<ValueId> inputs, Origin origin = {},
                          std::string name = {});
  void output(ValueId value) { graph_.add_output(value); }
  /// Reserves and returns `name`, or `name` with the first free suffix "_2", "_3", …. An empty name
  /// stays empty.
  std::string unique_name(const std::string& name);

  Graph take() && { return std::move(graph_); }

 private:
  Graph graph_;
  ShapeValues known_;
  FreshSymbols fresh_;
  std::map<std::string, std::uint64_t> names_;  // next suffix to try for each name
};

}  // namespace llmc::ir

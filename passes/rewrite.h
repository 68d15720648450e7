#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/shape_value.h"
#include "compiler/support/result.h"

namespace llmc::passes {

/// A graph that a pass rewrites. The pass visits the original nodes, emits new nodes, and replaces
/// values. Replacements take effect immediately. A node is removed as soon as it has lost its last
/// user, and restored if an emitted node or a replacement uses its result. `finish` sorts the
/// remaining nodes into execution order.
///
///   Rewriter rw(std::move(graph));
///   for (const NodeIndex i : rw.nodes())
///     if (auto match = …) rw.replace(rw.node(i).outputs[0], rw.emit(op, inputs, i));
///   return std::move(rw).finish();
///
/// References to nodes stay valid. References to values and types are valid until the next emit.
class Rewriter {
 public:
  using NodeIndex = std::uint32_t;

  explicit Rewriter(ir::Graph graph);
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  /// Number of original nodes; nodes 0 .. size()-1 are in execution order.
  NodeIndex size() const { return original_; }
  const ir::Node& node(NodeIndex index) const;
  /// Returns the original nodes with one of the operators T, or all if there is no T, in order.
  /// Nodes that are removed before the iteration reaches them are skipped.
  template <class... T>
  auto nodes() const {
    return std::views::iota(NodeIndex{0}, original_) | std::views::filter([this](NodeIndex i) {
             return alive_[i] && (sizeof...(T) == 0 || ir::is_any<T...>(node(i).op));
           });
  }
  /// Returns whether the node is in the graph: false while it is removed.
  bool alive(NodeIndex index) const { return alive_[index]; }
  const ir::Graph& graph() const { return graph_; }
  const ir::TensorType& type(ir::ValueId value) const { return graph_.value(value).type; }
  /// Returns the value's name, or the one that emit_constant() received for it.
  std::string name(ir::ValueId value) const;
  const ir::ShapeValues& shape_values() const { return known_; }

  /// Returns the producer of `value`, original or emitted; nullptr for graph inputs and kNoValue.
  const ir::Node* producer(ir::ValueId value) const;
  std::optional<NodeIndex> producer_index(ir::ValueId value) const;
  /// Position of `value` among the outputs of its producer.
  std::size_t slot(ir::ValueId value) const { return slot_.at(value.index); }
  /// Returns the producer's operator as T, or nullptr.
  template <class T>
  const T* op(ir::ValueId value) const {
    return ir::op_as<T>(producer(value));
  }
  /// Returns the data of `value` if its producer is a ConstantOp, else nullptr.
  ir::ConstantPtr constant(ir::ValueId value) const;

  /// Returns the number of operands and graph outputs that are `value`.
  std::size_t use_count(ir::ValueId value) const;
  /// Returns the nodes that read `value`, once for each operand.
  const std::vector<NodeIndex>& users(ir::ValueId value) const { return users_.at(value.index); }
  bool is_output(ir::ValueId value) const;
  bool is_input(ir::ValueId value) const;

  /// Adds a node at the position of node `anchor`, infers its types and returns its results. If
  /// inference fails, returns arbitrary values of the graph, replace() has no effect from then on,
  /// and finish() returns the error.
  std::vector<ir::ValueId> emit_all(ir::Op op, std::vector<ir::ValueId> inputs, NodeIndex anchor);
  /// Adds a node with one result, like emit_all(), and returns the result.
  ir::ValueId emit(ir::Op op, std::vector<ir::ValueId> inputs, NodeIndex anchor);
  /// Adds a constant. It is named `name` if no other value has this name.
  ir::ValueId emit_constant(ir::ConstantPtr data, NodeIndex anchor, std::string name = {});

  /// Sets the origin of the producer of `value`. By default, an emitted node has the origin of its
  /// anchor. Has no effect on graph inputs.
  void set_origin(ir::ValueId value, ir::Origin origin);
  /// Returns the origin of the producer of `value`; empty for graph inputs.
  ir::Origin origin(ir::ValueId value) const;

  /// Replaces `from` by `to`, which must have the same element type and rank (LLMC_CHECK), in all
  /// users and graph outputs. As a graph output, `to` gets the name of `from`. Inserts an Identity
  /// if an output would become an input, a constant or another output.
  void replace(ir::ValueId from, ir::ValueId to);
  /// Returns whether `replace` would insert an Identity.
  bool needs_identity(ir::ValueId from, ir::ValueId to) const;
  /// Returns whether replace() has changed the graph.
  bool changed() const { return changed_; }
  /// Appends a graph input, whose name must be unused.
  ir::ValueId add_input(ir::Value value);
  /// Changes the type of graph input `input`, for nodes that are emitted from now on. All present
  /// users must be replaced.
  void set_input_type(ir::ValueId input, ir::TensorType type);
  /// Removes graph input `value` if it has no users.
  void drop_input_if_unused(ir::ValueId value);

  /// Returns the new graph with inferred types. It contains only nodes on which outputs depend, in
  /// the original order as far as the dataflow allows. Fails if type inference of a node failed,
  /// and with kInternal if a replacement made the graph cyclic.
  Result<ir::Graph> finish() &&;

 private:
  ir::Node& node_mutable(NodeIndex index);
  NodeIndex add(ir::Node node, NodeIndex anchor);
  void remove_use(ir::ValueId value, NodeIndex user);
  void kill_if_unused(ir::ValueId value);
  void revive(ir::ValueId value);
  Result<std::vector<NodeIndex>> execution_order() const;

  ir::Graph graph_;
  NodeIndex original_ = 0;
  std::deque<ir::Node> added_;
  std::vector<NodeIndex> anchor_;              // anchors of added nodes
  std::vector<bool> alive_;                    // originals, then added
  std::vector<std::int64_t> producer_;         // by value; -1 for inputs
  std::vector<std::size_t> slot_;              // by value
  std::vector<std::vector<NodeIndex>> users_;  // by value
  std::vector<std::uint32_t> output_uses_;     // by value
  std::vector<bool> input_;                    // by value
  std::vector<std::pair<ir::ValueId, ir::ValueId>> renamed_;
  std::map<ir::ValueId, std::string> wanted_names_;
  ir::ShapeValues known_;
  ir::FreshSymbols fresh_;
  std::optional<Error> error_;
  bool changed_ = false;
};

/// Calls rewrite(rw, i) for each node i of Rewriter::nodes<T...>() and returns the new graph.
template <class... T, class Rewrite>
Result<ir::Graph> rewrite_nodes(ir::Graph graph, Rewrite rewrite) {
  Rewriter rw(std::move(graph));
  for (const Rewriter::NodeIndex i : rw.nodes<T...>()) rewrite(rw, i);
  return std::move(rw).finish();
}

/// Returns `graph` without the nodes on which no output depends. Keeps all inputs.
ir::Graph prune(const ir::Graph& graph);

}  // namespace llmc::passes

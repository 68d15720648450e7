#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/shape_value.h"
#include "compiler/support/result.h"

namespace llmc::passes {

/// A graph being rewritten. A pass walks the nodes there were at the start, emits new ones, and
/// replaces values; users see a replacement at once, nodes that nobody needs any more die at once,
/// and `finish` puts the survivors in execution order.
///
///   Rewriter rw(std::move(graph));
///   for (NodeIndex i = 0; i < rw.size(); ++i) {
///     if (!rw.alive(i)) continue;
///     if (auto match = …) rw.replace(rw.node(i).outputs[0], rw.emit(op, inputs, i));
///   }
///   return std::move(rw).finish();
///
/// References to nodes stay valid; references to values and types do not survive an emit.
class Rewriter {
 public:
  using NodeIndex = std::uint32_t;

  explicit Rewriter(ir::Graph graph);
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  /// Number of nodes at the start; nodes 0 .. size()-1 are in execution order.
  NodeIndex size() const { return original_; }
  const ir::Node& node(NodeIndex index) const;
  /// Whether anything still needs the node.
  bool alive(NodeIndex index) const { return alive_[index]; }
  const ir::Graph& graph() const { return graph_; }
  const ir::TensorType& type(ir::ValueId value) const { return graph_.value(value).type; }
  /// The value's name, or the one it is going to have.
  std::string name(ir::ValueId value) const;
  const ir::ShapeValues& shape_values() const { return known_; }

  /// The node that makes `value`, emitted ones included; nullptr for graph inputs and kNoValue.
  const ir::Node* producer(ir::ValueId value) const;
  std::optional<NodeIndex> producer_index(ir::ValueId value) const;
  /// Which output of its producer `value` is.
  std::size_t slot(ir::ValueId value) const { return slot_.at(value.index); }
  /// The producer's operator as T, or nullptr.
  template <class T>
  const T* op(ir::ValueId value) const {
    return ir::op_as<T>(producer(value));
  }
  /// The constant behind `value`, or nullptr.
  ir::ConstantPtr constant(ir::ValueId value) const;

  /// Operands that read `value` plus graph outputs that are it.
  std::size_t use_count(ir::ValueId value) const;
  /// Nodes that read `value`, once for each operand.
  const std::vector<NodeIndex>& users(ir::ValueId value) const { return users_.at(value.index); }
  bool is_output(ir::ValueId value) const;
  bool is_input(ir::ValueId value) const;

  /// Adds a node that stands where node `anchor` stands, with inferred types, and returns its
  /// results. After a failed inference the results have an empty type and `finish` reports it.
  std::vector<ir::ValueId> emit_all(ir::Op op, std::vector<ir::ValueId> inputs, NodeIndex anchor);
  /// The same for nodes with one result.
  ir::ValueId emit(ir::Op op, std::vector<ir::ValueId> inputs, NodeIndex anchor);
  /// A constant, called `name` unless a value that stays is called so.
  ir::ValueId emit_constant(ir::ConstantPtr data, NodeIndex anchor, std::string name = {});

  /// Sets the origin of the node that makes `value`; without this, an emitted node has its
  /// anchor's. No effect on graph inputs.
  void set_origin(ir::ValueId value, ir::Origin origin);
  /// The origin of the node that makes `value`; empty for graph inputs.
  ir::Origin origin(ir::ValueId value) const;

  /// Lets every user of `from` read `to`, graph outputs too, where `to` takes over the name. An
  /// output that would be an input, a constant or another output gets an Identity of its own.
  void replace(ir::ValueId from, ir::ValueId to);
  /// Whether `replace` would have to put an Identity there.
  bool needs_identity(ir::ValueId from, ir::ValueId to) const;
  /// Whether anything was replaced so far.
  bool changed() const { return changed_; }
  /// A new graph input, behind the others; no value may be called so.
  ir::ValueId add_input(ir::Value value);
  /// Removes graph input `value` if nothing reads it any more.
  void drop_input_if_unused(ir::ValueId value);

  /// The new graph: live nodes only, in an order as close to the old one as the dataflow allows,
  /// types inferred anew.
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
  std::vector<NodeIndex> anchor_;              // of added nodes
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

/// Copies the live part of `graph` (what its outputs need), in order; inputs stay.
ir::Graph prune(const ir::Graph& graph);

}  // namespace llmc::passes

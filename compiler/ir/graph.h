#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/op.h"

namespace llmc::ir {

/// Index of a value in its graph.
struct ValueId {
  std::uint32_t index = UINT32_MAX;
  friend auto operator<=>(const ValueId&, const ValueId&) = default;
  bool exists() const { return index != UINT32_MAX; }
};
/// Represents an absent optional operand.
inline constexpr ValueId kNoValue{};

/// Index of a node in its graph's `nodes()`, which are in execution order.
struct NodeId {
  std::uint32_t index = UINT32_MAX;
  friend auto operator<=>(const NodeId&, const NodeId&) = default;
};

/// What an input of a decoder contains. Inputs of plain graphs and of loop bodies are kNone: only
/// the caller knows what they contain.
enum class InputKind : std::uint8_t {
  kNone,
  kTokenIds,   // i64[seq]
  kMask,       // f32[1, 1, seq, past + seq], added to the scores; causal
  kPositions,  // i64[1, seq]: past, past + 1, …
  /// i64[n, seq]: n positions per token for multimodal RoPE, such as time, height and width. For
  /// text, all n equal kPositions.
  kPositionAxes,
  kLastPosition,  // i64[]: position of the last token of the call
  // A layer's state before the call (StateKind in module.h).
  kAttentionCache,
  kSource,
  kRecurrent,
};

struct Value {
  std::string name;  // as in the model, untrusted; unique within the graph; may be empty
  TensorType type;
  InputKind kind = InputKind::kNone;
  std::int64_t layer = 0;  // of a state
};

/// File and node of the model from which a node was imported: untrusted text for messages and for
/// comments in the emitted source.
struct Origin {
  std::string file;
  std::string node;
};

struct Node {
  Op op;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Origin origin;

  /// Returns operand i; kNoValue if it is absent.
  ValueId operand(std::size_t i) const { return i < inputs.size() ? inputs[i] : kNoValue; }
};

/// A dataflow graph in execution order and single-assignment form: each value is a graph input or
/// the output of exactly one node that comes before its users. Graphs are copied by value: a pass
/// takes a graph and returns a new one.
class Graph {
 public:
  std::string name;

  ValueId add_value(Value value);
  ValueId add_input(Value value);
  /// Appends a node and returns its id. Inputs must be values of this graph or kNoValue, outputs
  /// values of this graph (LLMC_CHECK).
  NodeId add_node(Node node);
  void add_output(ValueId value) { outputs_.push_back(value); }

  /// Appends a node with one output of the given type; the value's name must not be in use.
  ValueId append(Op op, std::vector<ValueId> inputs, TensorType type, Origin origin = {},
                 std::string name = {});
  ValueId append_constant(ConstantPtr data, std::string name = {}, Origin origin = {});

  const std::vector<Value>& values() const { return values_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  const Value& value(ValueId id) const;
  Value& value(ValueId id);
  const Node& node(NodeId id) const;
  /// Returns the input of a kind other than kNone; kNoValue if there is none.
  ValueId input(InputKind kind, std::int64_t layer = 0) const;
  /// Returns whether any input has a kind other than kNone.
  bool is_decoder() const;
  std::vector<Node>& mutable_nodes() { return nodes_; }
  std::vector<ValueId>& mutable_outputs() { return outputs_; }
  std::vector<ValueId>& mutable_inputs() { return inputs_; }

 private:
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<ValueId> inputs_, outputs_;
};

/// Producers and users of all values of a graph, which must outlive the object; invalid after the
/// graph changes. Values passed to the functions must exist, unless noted otherwise.
class UseDef {
 public:
  explicit UseDef(const Graph& graph);
  /// Returns the node that computes `value`; nullptr for graph inputs and kNoValue.
  const Node* producer(ValueId value) const;
  std::size_t use_count(ValueId value) const;  // each graph output counts as a use
  /// Returns the nodes that read `value`, in order; a node occurs once for each operand that is
  /// `value`.
  const std::vector<NodeId>& users(ValueId value) const;
  bool is_graph_output(ValueId value) const;
  /// Returns the constant that defines `value`; nullptr if there is none, and for kNoValue.
  ConstantPtr constant(ValueId value) const;

 private:
  const Graph& graph_;
  std::vector<std::int64_t> producer_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<std::uint32_t> outputs_;
};

/// Returns whether the operator is one of T.
template <class... T>
bool is_any(const Op& op) {
  return (std::holds_alternative<T>(op) || ...);
}

/// Returns the node's operator as T; nullptr if it is another operator or `node` is nullptr.
template <class T>
const T* op_as(const Node* node) {
  return node ? std::get_if<T>(&node->op) : nullptr;
}

}  // namespace llmc::ir

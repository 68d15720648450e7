#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/infer.h"
#include "compiler/ir/op_info.h"

/// Type inference rules, one for each operator. They are in infer_data.cpp, infer_index.cpp,
/// infer_math.cpp and infer_fused.cpp.
namespace llmc::ir {

using Types = std::vector<TensorType>;

/// Operands of the node to which a rule is applied. Their number has been checked.
class InferContext {
 public:
  InferContext(const Graph& graph, const Node& node, const ShapeValues& known, FreshSymbols& fresh)
      : graph_(graph), node_(node), known_(known), fresh_(fresh) {}

  const Node& node() const { return node_; }
  const Graph& graph() const { return graph_; }
  bool has(std::size_t i) const { return node_.operand(i).exists(); }
  const TensorType& type(std::size_t i) const { return graph_.value(node_.inputs[i]).type; }
  std::size_t rank(std::size_t i) const { return type(i).rank(); }
  /// Returns the elements of an integer or bool operand, or nullptr if they are unknown.
  const std::vector<Dim>* values(std::size_t i) const { return known_.find(node_.inputs[i]); }
  /// Returns the elements of an operand if all are known numbers, otherwise nullopt.
  std::optional<std::vector<std::int64_t>> numbers(std::size_t i) const;
  Dim fresh() const { return fresh_.next(); }

  Diagnostic error(std::string message, std::string hint = {}) const;
  /// Check that operand i has this rank, is a float tensor, or is an integer tensor.
  Status want_rank(std::size_t i, std::size_t rank) const;
  Status want_float(std::size_t i) const;
  Status want_integer(std::size_t i) const;
  /// Checks that `a` and `b` may be equal. `what` names them in the error.
  Status want_equal(const Dim& a, const Dim& b, const std::string& what) const;

  /// Returns an axis of operand 0 counted from the front; fails if it is outside the rank.
  Result<std::size_t> axis(std::int64_t axis) const;
  /// Returns the shape to which both shapes are broadcast, as in numpy. Symbolic dims that differ
  /// are assumed to be equal. Fails if two constant dims differ and neither is 1.
  Result<std::vector<Dim>> broadcast(const std::vector<Dim>& a, const std::vector<Dim>& b) const;
  /// Returns the common dim of two operands: `a` if it is a number, else `b`.
  static const Dim& merged(const Dim& a, const Dim& b) { return a.is_constant() ? a : b; }

 private:
  const Graph& graph_;
  const Node& node_;
  const ShapeValues& known_;
  FreshSymbols& fresh_;
};

/// Declares infer_op(c, op) for every operator. It returns the types of the node's outputs.
#define LLMC_INFER_OP(T) infer_op(const InferContext& c, const T& op)
Result<Types> LLMC_IR_OPS(LLMC_INFER_OP);
#undef LLMC_INFER_OP

}  // namespace llmc::ir

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/shape_value.h"
#include "compiler/support/result.h"

namespace llmc::ir {

/// Creates symbols "d0", "d1", … for sizes that are not affine expressions of known sizes. Skips
/// the symbols that were passed to avoid().
class FreshSymbols {
 public:
  FreshSymbols() = default;
  explicit FreshSymbols(const Graph& graph) { avoid(graph); }
  void avoid(const Graph& graph);
  void avoid(const TensorType& type);
  Dim next();
  /// Returns whether `dim` has exactly one symbol and next() created it.
  bool made(const Dim& dim) const;

 private:
  std::map<std::string, bool> taken_;  // true: created here
  std::uint64_t counter_ = 0;
};

/// Returns the types of the outputs of `node`, inferred from the types of its inputs, its
/// attributes and the known shape values. The inputs must be in `graph`; `node` need not be. Fails
/// with kBadInput if the operands do not fit the operator. Dims that must be equal are assumed to
/// be equal unless they provably differ.
Result<std::vector<TensorType>> infer(const Graph& graph, const Node& node,
                                      const ShapeValues& known, FreshSymbols& fresh);
/// Does the same, but first computes the shape values of the whole graph. Use it for single
/// queries.
Result<std::vector<TensorType>> infer(const Graph& graph, const Node& node);

/// Infers the types of the outputs of all nodes again, in order, including loop bodies. Where
/// inference would create a new symbol, the existing dim is kept. Fails at the first node whose
/// operands do not fit.
Result<Graph> infer_graph(Graph graph);

/// Returns whether two dims may be equal: false only if they differ for all non-negative values of
/// the symbols.
bool compatible(const Dim& a, const Dim& b);
/// Returns whether element types and ranks are equal and dims compatible.
bool compatible(const TensorType& a, const TensorType& b);

}  // namespace llmc::ir

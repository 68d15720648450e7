#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/shape_value.h"
#include "compiler/support/result.h"

namespace llmc::ir {

/// Creates symbols "d0", "d1", … for sizes that are not affine expressions of known ones, skipping
/// symbols that `graph` already uses.
class FreshSymbols {
 public:
  FreshSymbols() = default;
  explicit FreshSymbols(const Graph& graph) { avoid(graph); }
  void avoid(const Graph& graph);
  void avoid(const TensorType& type);
  Dim next();
  /// Returns whether `dim` consists of one symbol created by next().
  bool made(const Dim& dim) const;

 private:
  std::map<std::string, bool> taken_;  // true: created here
  std::uint64_t counter_ = 0;
};

/// Infers the types of the outputs of `node` from the types of its inputs, its attributes and the
/// shape values known so far. `node` need not be in `graph` yet, but its inputs must be. Fails,
/// with node and op set, if operands do not fit the operator; dims that merely might differ are
/// assumed to be equal.
Result<std::vector<TensorType>> infer(const Graph& graph, const Node& node,
                                      const ShapeValues& known, FreshSymbols& fresh);
/// Same, computing the shape values of `graph` each time: for single queries.
Result<std::vector<TensorType>> infer(const Graph& graph, const Node& node);

/// Infers all values again, in order, including loop bodies. If the result would need a new symbol,
/// the previous dim is kept. Fails at the first node that does not fit.
Result<Graph> infer_graph(Graph graph);

/// Returns whether two dims can be equal: not if they differ by a nonzero number.
bool compatible(const Dim& a, const Dim& b);
/// Returns whether element types and ranks are equal and dims compatible.
bool compatible(const TensorType& a, const TensorType& b);

}  // namespace llmc::ir

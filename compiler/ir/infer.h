#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/shape_value.h"
#include "compiler/support/result.h"

namespace llmc::ir {

/// Makes symbols for sizes that are no affine expression of the known ones: "d0", "d1", …, skipping
/// those that `graph` already uses.
class FreshSymbols {
 public:
  FreshSymbols() = default;
  explicit FreshSymbols(const Graph& graph) { avoid(graph); }
  void avoid(const Graph& graph);
  void avoid(const TensorType& type);
  Dim next();
  /// Whether next() made the only symbol of `dim`.
  bool made(const Dim& dim) const;

 private:
  std::map<std::string, bool> taken_;  // true: made here
  std::uint64_t counter_ = 0;
};

/// Types of the outputs of `node` from the types of its inputs, its attributes and the shape values
/// known so far. `node` need not be in `graph` yet, its inputs must. Fails with node and op filled
/// in when operands do not fit the operator; dims that only might differ are taken to be equal.
Result<std::vector<TensorType>> infer(const Graph& graph, const Node& node,
                                      const ShapeValues& known, FreshSymbols& fresh);
/// The same with shape values worked out from `graph` on the spot: for single questions.
Result<std::vector<TensorType>> infer(const Graph& graph, const Node& node);

/// Infers every value anew, in order, loop bodies too. Where the result would need a fresh symbol
/// the dim that stood there is kept. Fails at the first node that does not fit.
Result<Graph> infer_graph(Graph graph);

/// Whether two dims can be equal: not when they differ by a number other than zero.
bool compatible(const Dim& a, const Dim& b);
/// Same element type and rank, and compatible dims.
bool compatible(const TensorType& a, const TensorType& b);

}  // namespace llmc::ir

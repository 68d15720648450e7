#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace llmc::ir {

/// Integer (and bool) tensors whose elements are known as dims, for example the results of Shape ->
/// Gather -> Unsqueeze -> Concat or OneHot. At most one of their dims is not 1; elements are in
/// row-major order. They let Reshape, Expand, Tile, Slice and ConstantOfShape with computed shapes
/// have symbolic result types instead of unknown ones.
///
/// Bools are 0 and 1. Symbols represent sizes, so an expression without negative terms is known to
/// be non-negative, and `Equal(seq, -1)` is known to be false.
class ShapeValues {
 public:
  /// Returns the elements of `value`, or nullptr if they are unknown. A scalar has one.
  const std::vector<Dim>* find(ValueId value) const;
  void set(ValueId value, std::vector<Dim> elements) { known_[value] = std::move(elements); }
  /// Records what is known about the outputs of `node`, whose types must be set.
  void record(const Graph& graph, const Node& node);
  /// Calls record() for every node of `graph`.
  static ShapeValues of(const Graph& graph);

 private:
  std::map<ValueId, std::vector<Dim>> known_;
};

/// Returns whether the dim is non-negative for all symbols: all coefficients and the constant are
/// >= 0.
bool is_non_negative(const Dim& dim);
/// Returns whether the dim counts as negative for all symbols: coefficients <= 0 and the constant <
/// 0, or both <= 0 with at least one symbol, where a size of zero would make it a no-op.
bool is_negative(const Dim& dim);
/// Returns false if the dims differ for all values of the symbols, true if they are the same
/// expression, and nullopt if it depends.
std::optional<bool> known_equal(const Dim& a, const Dim& b);

}  // namespace llmc::ir

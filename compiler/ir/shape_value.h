#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace llmc::ir {

/// Integer and bool tensors whose elements are known as Dims, for example the result of Shape ->
/// Gather -> Unsqueeze -> Concat. With them, Reshape, Expand, Tile, Slice and ConstantOfShape with
/// computed shapes have symbolic result types instead of unknown ones. Such a tensor has at most
/// 256 elements, in row-major order. Results of Binary and Where operators are known only if at
/// most one of their dims is not 1. Views have no such limit.
///
/// Bools are 0 and 1. Symbols represent sizes, so an expression without negative terms is
/// non-negative, and `Equal(seq, -1)` is false. A dim of a tensor whose shape was read is
/// non-negative too, whatever its terms: `Equal(Shape(x)[0], -1)` is false for x of `seq - 2` rows.
class ShapeValues {
 public:
  /// Returns the elements of `value`, or nullptr if they are unknown. A scalar has one element.
  const std::vector<Dim>* find(ValueId value) const;
  void set(ValueId value, std::vector<Dim> elements) { known_[value] = std::move(elements); }
  /// Records the known elements of the outputs of `node`, whose types must be set.
  void record(const Graph& graph, const Node& node);
  /// Calls record() for every node of `graph`.
  static ShapeValues of(const Graph& graph);

  /// Returns whether the dim is non-negative: by its terms, or because it is at least a dim of a
  /// tensor whose shape was recorded.
  bool is_non_negative(const Dim& dim) const;

 private:
  std::map<ValueId, std::vector<Dim>> known_;
  std::vector<Dim> sizes_;  // recorded dims whose terms alone do not show that they are >= 0
};

/// Returns whether the dim is non-negative for all values of the symbols: all coefficients and the
/// constant are >= 0.
bool is_non_negative(const Dim& dim);
/// Returns whether the dim is treated as negative: no coefficient is positive, and the constant is
/// negative or, if there is a symbol, zero. The latter assumes that sizes are not all zero.
bool is_negative(const Dim& dim);
/// Returns true if the dims are the same expression, false if they provably differ for all
/// non-negative values of the symbols, and nullopt otherwise.
std::optional<bool> known_equal(const Dim& a, const Dim& b);

}  // namespace llmc::ir

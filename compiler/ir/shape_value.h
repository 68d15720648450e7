#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace llmc::ir {

/// Integer (and bool) tensors whose elements are known as dims, such as what Shape -> Gather ->
/// Unsqueeze -> Concat or OneHot makes. At most one of their dims is not 1; elements are in
/// row-major order. With them Reshape, Expand, Tile, Slice and ConstantOfShape with computed shapes
/// get symbolic result types instead of unknown ones.
///
/// Bools are 0 and 1. Symbols stand for sizes, so an expression without a negative part is known
/// not to be negative, and `Equal(seq, -1)` is known to be false.
class ShapeValues {
 public:
  /// Elements of `value`, or nullptr when they are not known. A scalar has one.
  const std::vector<Dim>* find(ValueId value) const;
  void set(ValueId value, std::vector<Dim> elements) { known_[value] = std::move(elements); }
  /// Works out what is known of the outputs of `node`, whose types must be set.
  void record(const Graph& graph, const Node& node);
  /// record() for every node of `graph`.
  static ShapeValues of(const Graph& graph);

 private:
  std::map<ValueId, std::vector<Dim>> known_;
};

/// No symbol can make it negative: all coefficients and the constant are >= 0.
bool is_non_negative(const Dim& dim);
/// No symbol can make it zero or positive: coefficients <= 0 and the constant < 0; or both are
/// <= 0 with a symbol, which counts as negative because a size of zero would make it a no-op.
bool is_negative(const Dim& dim);
/// false: provably different for every value of the symbols; true: the same expression; nullopt: it
/// depends.
std::optional<bool> known_equal(const Dim& a, const Dim& b);

}  // namespace llmc::ir

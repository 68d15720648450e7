#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compiler/ir/index_map.h"
#include "passes/match.h"

/// Integer tensors whose elements are affine in their index: positions, indices of keys and
/// queries, masks of ones.
namespace llmc::passes {

/// Finds affine values through constants, Shape arithmetic, Range, ConstantOfShape, CumSum, Reduce,
/// Where, comparisons that do not depend on symbols, elementwise integer arithmetic and views
/// (ir/index_map.h). Floats made by Cast count as the integers they hold.
///
/// The graph input `position_ids` is past, past + 1, … along its last axis: the runtime's
/// convention for one sequence. Results are cached: producers of a value must not be rewritten
/// between queries.
class IndexAnalysis {
 public:
  explicit IndexAnalysis(const Rewriter& rw) : rw_(rw) {}

  /// nullptr if the value is not known to be affine.
  const ir::AffineIndex* find(ir::ValueId value);
  /// The value of all elements if they are known to be equal.
  std::optional<ir::Dim> uniform(ir::ValueId value);
  /// Whether every element is known to be nonzero, or zero.
  bool always_true(ir::ValueId value);
  bool always_false(ir::ValueId value);

  /// Whether a ScatterNd replaces all of its data by its updates, in place: x[:, :] = y.
  bool overwrites_all(const ir::Node& node);

  /// Left minus right operand of a Binary, as a function of the result's index; nullopt if one is
  /// not affine.
  std::optional<ir::AffineIndex> difference(const ir::Node& node);

 private:
  friend class IndexRules;
  const Rewriter& rw_;
  std::map<ir::ValueId, std::optional<ir::AffineIndex>> known_;
  int depth_ = 0;
};

}  // namespace llmc::passes

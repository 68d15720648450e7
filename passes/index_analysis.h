#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compiler/ir/index_map.h"
#include "passes/match.h"

/// Analysis of integer tensors whose elements are affine functions of their index: positions,
/// indices of keys and queries, masks of ones.
namespace llmc::passes {

/// The integers floor(numerator / divisor) of numerators >= 0.
struct IndexQuotient {
  ir::AffineIndex numerator;
  std::int64_t divisor = 1;
};

/// `size` indices begin, begin + step, …; step >= 1.
struct IndexRun {
  ir::Dim begin;
  std::int64_t step = 1;
  ir::Dim size;
};

/// Finds affine values through constants, Shape arithmetic, Range, ConstantOfShape, CumSum, Reduce,
/// Where, comparisons with the same result for all elements, elementwise integer arithmetic and
/// views (ir/index_map.h). Integers that are cast to floats are included.
///
/// By the runtime's convention for one sequence, an input of kind kPositions is past, past + 1, …
/// along its last axis. Results are cached, so the producers of a value must not be rewritten
/// between queries.
class IndexAnalysis {
 public:
  explicit IndexAnalysis(const Rewriter& rw) : rw_(rw) {}

  /// Returns the affine function of the index that gives the elements of `value`; nullptr if none
  /// is known.
  const ir::AffineIndex* find(ir::ValueId value);
  /// Returns the common value of all elements; nullopt if they are not known to be equal.
  std::optional<ir::Dim> uniform(ir::ValueId value);
  /// Return whether every element is known to be nonzero, or known to be zero.
  bool always_true(ir::ValueId value);
  bool always_false(ir::ValueId value);

  /// Returns the quotients if `value` is an affine value divided by a positive number and rounded
  /// down. Supports division of integers, floor of float division, views, casts, and additions and
  /// subtractions of 0.
  std::optional<IndexQuotient> quotient(ir::ValueId value);

  /// Returns, for each axis, the indices of the block of its data that a ScatterNd or a
  /// ScatterElements overwrites with its updates, in order: x[:, 1:3] = y, x[:, 0] = y, x[:, ::2] =
  /// y. Returns nullopt for other scatters and other nodes.
  std::optional<std::vector<IndexRun>> overwritten_block(const ir::Node& node);

  /// Returns the left minus the right operand of a Binary, as a function of the result's index;
  /// nullopt if one is not affine.
  std::optional<ir::AffineIndex> difference(const ir::Node& node);

 private:
  friend class IndexRules;
  std::optional<std::vector<IndexRun>> overwritten_slice(const ir::Node& node,
                                                         const ir::ScatterElements& op);
  /// Returns component c of the index tuples along the last axis of `tuples`, for a dim of `size`.
  /// Negative numbers count from the end of the dim.
  std::optional<ir::AffineIndex> component(ir::ValueId tuples, std::size_t c, const ir::Dim& size);

  const Rewriter& rw_;
  std::map<ir::ValueId, std::optional<ir::AffineIndex>> known_;
  int depth_ = 0;
};

}  // namespace llmc::passes

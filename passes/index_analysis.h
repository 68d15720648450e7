#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compiler/ir/index_map.h"
#include "passes/match.h"

/// Integers whose elements are an affine function of where they stand: positions, indices of keys
/// and queries, masks of ones, whatever a graph made them with.
namespace llmc::passes {

/// Finds affine values by following constants, Shape arithmetic, Range, ConstantOfShape, CumSum,
/// Reduce, Gather, Slice, Where, comparisons that symbols decide, elementwise integer arithmetic,
/// views, Expand and Transpose. Floats made by Cast count as the integers they hold.
///
/// The graph input `position_ids` is past, past + 1, … along its last axis: the convention by which
/// runtimes feed a decoder one sequence. Results are kept; a value's graph must not be rewritten
/// above it in between.
class IndexAnalysis {
 public:
  explicit IndexAnalysis(const Rewriter& rw) : rw_(rw) {}

  /// nullptr when the value is not affine, or not known to be.
  const ir::AffineIndex* find(ir::ValueId value);
  /// The number that every element is, when that is known.
  std::optional<ir::Dim> uniform(ir::ValueId value);
  /// Whether every element is known to be other than 0 (true), or to be 0.
  bool always_true(ir::ValueId value);
  bool always_false(ir::ValueId value);

  /// Whether a ScatterNd puts every element of its updates where it stands there: x[:, :] = y.
  bool overwrites_all(const ir::Node& node);

  /// Of a Binary: operands as functions of the result's axes, left minus right; nullopt when one is
  /// not affine.
  std::optional<ir::AffineIndex> difference(const ir::Node& node);

 private:
  friend class IndexRules;
  const Rewriter& rw_;
  std::map<ir::ValueId, std::optional<ir::AffineIndex>> known_;
  int depth_ = 0;
};

}  // namespace llmc::passes

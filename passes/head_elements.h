#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "passes/match.h"

/// The elements of a value along the head dim, as sums of +-x_i * {1, cos, sin}: the analysis for
/// fuse_rope.
namespace llmc::passes {

/// A factor that depends on the token only: an angle p*f, its cosine or sine, or a table's column.
struct RopeFactor {
  enum class Kind : std::uint8_t { kOne, kAngle, kCos, kSin, kColumn };
  Kind kind = Kind::kOne;
  ir::ValueId positions;    // integers, one for each token
  double frequency = 0;     // kAngle, kCos, kSin
  ir::ConstantPtr table;    // kColumn: f32[max_positions, n]
  std::int64_t column = 0;  // kColumn: the first column with the same elements
  friend bool operator==(const RopeFactor&, const RopeFactor&) = default;
};

struct RopeTerm {
  bool negative = false;
  std::int64_t x = -1;  // which element of x; -1: the factor alone
  RopeFactor factor;
};

/// One element: a sum of terms.
using RopeForm = std::vector<RopeTerm>;

/// A value's elements. Its dims are leading ones (batch, sequence, heads in some order) and then
/// `shape`; `elements` are row-major over `shape` and the same for every leading index.
struct HeadElements {
  std::vector<std::int64_t> shape;
  std::vector<RopeForm> elements;
};

/// Follows elements through the nodes of a graph, for values made of factors alone and for those
/// made of one x.
class HeadElementAnalysis {
 public:
  /// Limits: wider heads and longer chains are not followed.
  static constexpr std::int64_t kMaxHeadDim = 1 << 12;
  static constexpr int kMaxDepth = 64;

  explicit HeadElementAnalysis(const Rewriter& rw) : rw_(rw) {}

  /// The elements of `value` as factors of the token, without x; nullptr if it is something else.
  const HeadElements* factors(ir::ValueId value);

  /// Starts with `x`: rank 4, last dim a number. Forgets the previous one.
  void start(ir::ValueId x);
  /// Computes the elements of the results of `node` from those of its operands. Returns false if
  /// they are not known.
  bool visit(const ir::Node& node);
  /// Elements of a value made from x; nullptr if they are not known.
  const HeadElements* made_from_x(ir::ValueId value) const;
  /// The axis of x that corresponds to the factors' tokens (1 or 2); set by a product with factors.
  std::optional<std::size_t> sequence_axis() const { return sequence_axis_; }

 private:
  std::optional<HeadElements> compute_factors(ir::ValueId value);
  std::optional<HeadElements> angles(const ir::Node& node, const ir::TensorType& type);
  std::optional<HeadElements> columns(const ir::Node& node);
  std::optional<std::vector<HeadElements>> product(const ir::Node& node);
  std::optional<ir::ValueId> positions(ir::ValueId value) const;

  const Rewriter& rw_;
  std::map<ir::ValueId, std::optional<HeadElements>> factors_;
  std::map<ir::ConstantPtr, std::vector<std::int64_t>> columns_;  // canonical_columns by table
  int depth_ = 0;
  std::map<ir::ValueId, HeadElements> from_x_;
  ir::ValueId x_;
  std::optional<std::size_t> sequence_axis_;
};

/// A rotation of an x with as many elements as `elements`.
struct Rotation {
  std::int64_t rotary_dim = 0;
  bool interleaved = false;
  ir::ValueId positions;
  std::vector<RopeFactor> cosines, sines;  // rotary_dim / 2 each
};
std::optional<Rotation> match_rotation(const std::vector<RopeForm>& elements);

/// Elements of result `slot` of a view (ir/index_map.h) of values with elements `in`, one for each
/// operand of a Concat, one for other views. `fixed_lead`: leading dims must be the same, otherwise
/// they may be permuted and dims of 1 added or removed. nullopt where elements and leading dims
/// mix.
std::optional<HeadElements> view_elements(const Rewriter& rw, const ir::Node& node,
                                          std::size_t slot,
                                          const std::vector<const HeadElements*>& in,
                                          bool fixed_lead);

}  // namespace llmc::passes

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "passes/match.h"

/// What the elements of a value are along the head dim, as sums of +-x_i * {1, cos, sin}: the
/// analysis behind fuse_rope.
namespace llmc::passes {

/// A factor that depends on the token only: an angle p*f, its cosine or sine, or a table's column.
struct RopeFactor {
  enum class Kind : std::uint8_t { kOne, kAngle, kCos, kSin, kColumn };
  Kind kind = Kind::kOne;
  ir::ValueId positions;    // integers, one for each token
  double frequency = 0;     // kAngle, kCos, kSin
  ir::ConstantPtr table;    // kColumn: f32[max_positions, n]
  std::int64_t column = 0;  // kColumn: the first of the columns that hold the same
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
struct Lanes {
  std::vector<std::int64_t> shape;
  std::vector<RopeForm> elements;
};

/// Follows elements through the nodes of a graph, for values made of factors alone and for those
/// made of one x.
class LaneAnalysis {
 public:
  /// Wider heads and longer chains than any model's are not followed.
  static constexpr std::int64_t kMaxHeadDim = 1 << 12;
  static constexpr int kMaxDepth = 64;

  explicit LaneAnalysis(const Rewriter& rw) : rw_(rw) {}

  /// What `value` is as factors of the token, without any x; nullptr when it is something else.
  const Lanes* factors(ir::ValueId value);

  /// Begins with x: rank 4, last dim a number. Forgets the previous one.
  void start(ir::ValueId x);
  /// Works out results of `node` from what is known of its operands. False when nothing is.
  bool visit(const ir::Node& node);
  /// What is known of a value made from x.
  const Lanes* made_from_x(ir::ValueId value) const;
  /// Which axis of x the factors run along (1 or 2), once a product with factors has been seen.
  std::optional<std::size_t> sequence_axis() const { return sequence_axis_; }

 private:
  std::optional<Lanes> compute_factors(ir::ValueId value);
  std::optional<Lanes> angles(const ir::Node& node, const ir::TensorType& type);
  std::optional<Lanes> columns(const ir::Node& node);
  std::optional<std::vector<Lanes>> product(const ir::Node& node);
  std::optional<ir::ValueId> positions(ir::ValueId value) const;

  const Rewriter& rw_;
  std::map<ir::ValueId, std::optional<Lanes>> factors_;
  std::map<ir::ConstantPtr, std::vector<std::int64_t>> columns_;  // canonical ones of a table
  int depth_ = 0;
  std::map<ir::ValueId, Lanes> from_x_;
  ir::ValueId x_;
  std::optional<std::size_t> sequence_axis_;
};

/// The rotation that `elements` describe, of an x with as many elements.
struct Rotation {
  std::int64_t rotary_dim = 0;
  bool interleaved = false;
  ir::ValueId positions;
  std::vector<RopeFactor> cosines, sines;  // rotary_dim / 2 each
};
std::optional<Rotation> match_rotation(const std::vector<RopeForm>& elements);

/// Elements of `in` after a node that only moves them within the head dim: Slice, Split (by slot),
/// Gather, Concat (of several), Reshape, Squeeze, Unsqueeze, Expand, Transpose of leading dims.
/// `fixed_lead`: leading dims must stay as they are, otherwise dims of 1 may come and go there.
std::optional<Lanes> move_lanes(const Rewriter& rw, const ir::Node& node, std::size_t slot,
                                const std::vector<const Lanes*>& in, bool fixed_lead);

}  // namespace llmc::passes

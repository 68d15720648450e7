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
struct HeadElements {
  std::vector<std::int64_t> shape;
  std::vector<RopeForm> elements;
};

/// Follows elements through the nodes of a graph, for values made of factors alone and for those
/// made of one x.
class HeadElementAnalysis {
 public:
  /// Wider heads and longer chains than any model's are not followed.
  static constexpr std::int64_t kMaxHeadDim = 1 << 12;
  static constexpr int kMaxDepth = 64;

  explicit HeadElementAnalysis(const Rewriter& rw) : rw_(rw) {}

  /// What `value` is as factors of the token, without any x; nullptr when it is something else.
  const HeadElements* factors(ir::ValueId value);

  /// Begins with x: rank 4, last dim a number. Forgets the previous one.
  void start(ir::ValueId x);
  /// Works out results of `node` from what is known of its operands. False when nothing is.
  bool visit(const ir::Node& node);
  /// What is known of a value made from x.
  const HeadElements* made_from_x(ir::ValueId value) const;
  /// Which axis of x the factors run along (1 or 2), once a product with factors has been seen.
  std::optional<std::size_t> sequence_axis() const { return sequence_axis_; }

 private:
  std::optional<HeadElements> compute_factors(ir::ValueId value);
  std::optional<HeadElements> angles(const ir::Node& node, const ir::TensorType& type);
  std::optional<HeadElements> columns(const ir::Node& node);
  std::optional<std::vector<HeadElements>> product(const ir::Node& node);
  std::optional<ir::ValueId> positions(ir::ValueId value) const;

  const Rewriter& rw_;
  std::map<ir::ValueId, std::optional<HeadElements>> factors_;
  std::map<ir::ConstantPtr, std::vector<std::int64_t>> columns_;  // canonical ones of a table
  int depth_ = 0;
  std::map<ir::ValueId, HeadElements> from_x_;
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

/// Elements of result `slot` of a view (ir/index_map.h) of values with elements `in`, one for each
/// operand of a Concat, one for other views. `fixed_lead`: leading dims must be the same, otherwise
/// they may be permuted and dims of 1 added or removed. nullopt where elements and leading dims
/// mix.
std::optional<HeadElements> view_elements(const Rewriter& rw, const ir::Node& node,
                                          std::size_t slot,
                                          const std::vector<const HeadElements*>& in,
                                          bool fixed_lead);

}  // namespace llmc::passes

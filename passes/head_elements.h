#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "passes/match.h"

/// Analysis for fuse_rope: expresses the elements of a value along the head dim as sums of +-x_i *
/// {1, cos, sin}.
namespace llmc::passes {

/// A factor that depends only on the token: 1, an angle p*f, its cosine or sine, or a column of a
/// table.
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
  std::int64_t x = -1;  // index of the element of x; -1: the factor alone
  RopeFactor factor;
};

/// One element: a sum of terms.
using RopeForm = std::vector<RopeTerm>;

/// The elements of a value. Its dims are leading dims (batch, sequence, heads in some order), then
/// `shape`. `elements` are row-major over `shape`, and apply to every leading index.
struct HeadElements {
  std::vector<std::int64_t> shape;
  std::vector<RopeForm> elements;
};

/// Computes elements of values that consist of factors alone, and of values computed from one x.
class HeadElementAnalysis {
 public:
  /// Maximum head dim and maximum number of chained nodes that are analyzed.
  static constexpr std::int64_t kMaxHeadDim = 1 << 12;
  static constexpr int kMaxDepth = 64;

  explicit HeadElementAnalysis(const Rewriter& rw) : rw_(rw) {}

  /// Returns the elements of `value` if they are factors without x, otherwise nullptr.
  const HeadElements* factors(ir::ValueId value);

  /// Starts the analysis of values computed from `x`, which has rank 4 and a constant last dim.
  /// Discards the results for the previous x.
  void start(ir::ValueId x);
  /// Computes the elements of the results of `node` from those of its operands. Returns false if
  /// they are unknown.
  bool visit(const ir::Node& node);
  /// Returns the elements of a value computed from x; nullptr if they are unknown.
  const HeadElements* made_from_x(ir::ValueId value) const;
  /// Returns the axis of x that corresponds to the tokens of the factors (1 or 2). It is known
  /// after a product with factors has been visited.
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

/// A rotation of a head.
struct Rotation {
  std::int64_t rotary_dim = 0;
  bool interleaved = false;
  ir::ValueId positions;
  std::vector<RopeFactor> cosines, sines;  // rotary_dim / 2 each
};
std::optional<Rotation> match_rotation(const std::vector<RopeForm>& elements);

/// Returns the elements of result `slot` of a view (ir/index_map.h). `in` are the elements of its
/// operands: one for each operand of a Concat, one for other views. With `fixed_lead`, leading dims
/// must be unchanged; otherwise they may be permuted, and dims of 1 added or removed. Returns
/// nullopt if the view mixes elements and leading dims.
std::optional<HeadElements> view_elements(const Rewriter& rw, const ir::Node& node,
                                          std::size_t slot,
                                          const std::vector<const HeadElements*>& in,
                                          bool fixed_lead);

}  // namespace llmc::passes

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "passes/rope_factors.h"

/// Analysis for fuse_rope: expresses the elements of a value along the head dim as sums of +-x_i *
/// {1, cos, sin}.
namespace llmc::passes {

struct RopeTerm {
  bool negative = false;
  std::int64_t x = 0;  // index of the element of x
  RopeFactor factor;
};

/// One element, as a sum of terms.
using RopeForm = std::vector<RopeTerm>;

/// The elements of a value. Its dims are leading dims (batch, sequence, heads in some order), then
/// `shape`. `elements` are row-major over `shape`, and apply to every leading index.
struct HeadElements {
  std::vector<std::int64_t> shape;
  std::vector<RopeForm> elements;
};

/// Computes the elements of values computed from one x and factors (rope_factors.h).
class HeadElementAnalysis {
 public:
  /// Maximum head dim that is analyzed.
  static constexpr std::int64_t kMaxHeadDim = 1 << 12;

  explicit HeadElementAnalysis(const Rewriter& rw) : rw_(rw), factors_(rw) {}

  /// Returns the factors of `value`; nullptr if it contains anything but factors.
  const RopeFactors* factors(ir::ValueId value) { return factors_.find(value); }

  /// Starts the analysis of values computed from `x`, which must have rank 4 and a constant last
  /// dim. Discards the results for the previous x.
  void start(ir::ValueId x);
  /// Computes the elements of the results of `node` from those of its operands. Returns false if
  /// they are unknown.
  bool visit(const ir::Node& node);
  /// Returns the elements of a value computed from x; nullptr if `visit` has not found them.
  const HeadElements* elements_of(ir::ValueId value) const;
  /// Returns the axis of x that corresponds to the tokens of the factors (1 or 2). It is known
  /// after a product with factors has been visited.
  std::optional<std::size_t> sequence_axis() const { return sequence_axis_; }

 private:
  std::optional<std::vector<HeadElements>> product(const ir::Node& node);

  const Rewriter& rw_;
  RopeFactorAnalysis factors_;
  std::map<ir::ValueId, HeadElements> from_x_;
  ir::ValueId x_;
  std::optional<std::size_t> sequence_axis_;
};

/// A rotation of a head (RoPE). The vectors have rotary_dim / 2 factors each.
struct Rotation {
  std::int64_t rotary_dim = 0;
  bool interleaved = false;
  ir::ValueId positions;
  std::vector<RopeFactor> cosines, sines;  // rotary_dim / 2 each
};
std::optional<Rotation> match_rotation(const std::vector<RopeForm>& elements);

}  // namespace llmc::passes

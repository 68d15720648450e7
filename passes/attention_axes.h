#pragma once

#include "passes/match.h"

/// Labels for the axes of attention operands. They are traced from a product backwards through
/// views, repeated heads and scalar factors.
namespace llmc::passes {

/// kUnit: a dim of 1, which matches every label. kGroup: index among the query heads that share a
/// KV head.
enum class Axis : std::uint8_t { kUnit, kHeads, kGroup, kTokens, kDim };

struct Traced {
  ir::ValueId value;
  std::vector<Axis> axes;    // label of each dim of `value`
  double scale = 1;          // product of the scalar factors between `value` and the matrix product
  std::int64_t repeats = 1;  // number of consecutive heads that read each head of `value`
};

/// Moves `traced` to the operand of its value's producer. Returns false, without a change, unless
/// the producer multiplies by a finite scalar, divides by a finite scalar other than 0, or is a
/// view for which the labels of the result determine those of the operand.
bool trace_up(const Rewriter& rw, Traced& traced);

/// Returns the labels of a rank-4 value whose first dim is a batch of 1. Dims of 1 get the missing
/// labels, heads before tokens. Returns nullopt if the result is neither kSequenceFirstAxes nor
/// kHeadsFirstAxes.
std::optional<std::vector<Axis>> four_axes(const Rewriter& rw, const Traced& traced);

inline const std::vector<Axis> kSequenceFirstAxes{Axis::kUnit, Axis::kTokens, Axis::kHeads,
                                                  Axis::kDim};
inline const std::vector<Axis> kHeadsFirstAxes{Axis::kUnit, Axis::kHeads, Axis::kTokens,
                                               Axis::kDim};

/// The permutation between the two layouts.
inline const std::vector<std::int64_t> kSwapHeadsAndTokens{0, 2, 1, 3};

/// Returns the labels of an operand of a product: [.., heads, x, y], or [.., heads, group, x, y].
std::vector<Axis> operand_axes(std::size_t rank, Axis x, Axis y);

/// Queries of an attention: a value in one of the two layouts, and the product of the scalar
/// factors between it and the matrix product.
struct Queries {
  ir::ValueId value;
  bool heads_first = false;
  double scale = 1;
};
/// Traces the queries backwards. Returns the value closest to the projection that has one of the
/// two layouts; nullopt if there is none.
std::optional<Queries> trace_queries(const Rewriter& rw, ir::ValueId value);

/// Half `index` of `whole` along its first axis: the keys or values of a cache or source.
struct Half {
  ir::ValueId whole;
  std::int64_t index = 0;
};
/// Matches `value` with a half of a value of dims [2, dims…]; views may add or remove dims of 1.
std::optional<Half> match_half(const Rewriter& rw, ir::ValueId value,
                               const std::vector<ir::Dim>& dims);

/// Returns `axes` with kUnit for each dim of 1.
std::vector<Axis> label(const std::vector<ir::Dim>& dims, std::vector<Axis> axes);

}  // namespace llmc::passes

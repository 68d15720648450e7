#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/op.h"

/// Affine functions of a tensor index; coefficients may be symbolic.
namespace llmc::ir {

inline bool is_zero(const Dim& dim) {
  return dim == Dim(0);
}

/// Affine function of an index (i0, i1, …): start + sum of steps[a] * i_a.
struct AffineIndex {
  Dim start;
  std::vector<Dim> steps;

  /// Returns whether the value is the same for every index.
  bool is_uniform() const;
  friend bool operator==(const AffineIndex&, const AffineIndex&) = default;
};

/// Returns the affine function whose values over `dims`, in row-major order, are `values`; nullopt
/// if there is none, a coefficient overflows or `values` is empty. `values` must have one element
/// for each index.
std::optional<AffineIndex> fit_index(const std::vector<std::int64_t>& values,
                                     const std::vector<std::int64_t>& dims);

/// Returns the function whose value is `value` for every index of a tensor of rank `rank`.
AffineIndex uniform_index(const Dim& value, std::size_t rank);
/// Return a + b, a - b and factor * x. Return nullopt if the ranks of the operands differ, the
/// result is not affine or a coefficient overflows.
std::optional<AffineIndex> sum(const AffineIndex& a, const AffineIndex& b);
std::optional<AffineIndex> difference(const AffineIndex& a, const AffineIndex& b);
std::optional<AffineIndex> scaled(const AffineIndex& x, const Dim& factor);
/// Returns `x` as a function of the index of a tensor of rank `rank` to which it is broadcast;
/// nullopt if `x` has more than `rank` axes.
std::optional<AffineIndex> aligned(const AffineIndex& x, std::size_t rank);

/// Compares `d` with 0, for example d < 0 for kLess. Returns true if the comparison holds for every
/// index within `dims` and all non-negative values of the symbols, and false if it holds for none.
/// Returns nullopt if neither can be proved or `kind` is not a comparison.
std::optional<bool> holds_everywhere(BinaryKind kind, const AffineIndex& d,
                                     const std::vector<Dim>& dims);

/// Replaces `start` by the reduction of start + step * i over 0 <= i < size. Returns false and
/// leaves `start` unchanged if no rule computes the result, as for kMin with a negative step.
bool reduce_index(ReduceKind kind, const Dim& size, const Dim& step, Dim& start);

}  // namespace llmc::ir

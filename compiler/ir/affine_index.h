#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/op.h"

/// Affine functions of a tensor's axes, with symbols.
namespace llmc::ir {

inline bool is_zero(const Dim& dim) {
  return dim == Dim(0);
}

/// Affine function of an index (i0, i1, …): start + sum of steps[a] * i_a.
struct AffineIndex {
  Dim start;
  std::vector<Dim> steps;

  /// Whether the value does not depend on the index.
  bool is_uniform() const;
  friend bool operator==(const AffineIndex&, const AffineIndex&) = default;
};

/// The affine function that has `values`, row-major over `dims`; nullopt if there is none.
std::optional<AffineIndex> fit_index(const std::vector<std::int64_t>& values,
                                     const std::vector<std::int64_t>& dims);

AffineIndex uniform_index(const Dim& value, std::size_t rank);
/// nullopt if the result is not affine, or overflows. Both operands have the same rank.
std::optional<AffineIndex> sum(const AffineIndex& a, const AffineIndex& b);
std::optional<AffineIndex> difference(const AffineIndex& a, const AffineIndex& b);
std::optional<AffineIndex> scaled(const AffineIndex& x, const Dim& factor);
/// `x` as a function of the index of a value of `rank` that it broadcasts to; nullopt if it has
/// more axes.
std::optional<AffineIndex> aligned(const AffineIndex& x, std::size_t rank);

/// Whether the comparison `d kind 0` is true (or false) for each index within `dims` and all values
/// of the symbols; nullopt if that is not known or depends on the index.
std::optional<bool> holds_everywhere(BinaryKind kind, const AffineIndex& d,
                                     const std::vector<Dim>& dims);

/// Replaces `start` by that of the reduction over an axis of `size` with this step. Returns false,
/// without a change, if the result is not affine.
bool reduce_index(ReduceKind kind, const Dim& size, const Dim& step, Dim& start);

}  // namespace llmc::ir

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/op.h"

/// Affine functions of a tensor's axes, with symbols.
namespace llmc::passes {

inline bool is_zero(const ir::Dim& dim) {
  return dim == ir::Dim(0);
}

/// Element at (i0, i1, …) = start + sum of steps[a] * i_a. Bools count as 0 and 1. Dims of 1 have a
/// step of 0. Dims and numbers may hold symbols.
struct AffineIndex {
  ir::Dim start;
  std::vector<ir::Dim> steps;

  /// Whether every element is the same.
  bool is_uniform() const;
  friend bool operator==(const AffineIndex&, const AffineIndex&) = default;
};

AffineIndex uniform_index(const ir::Dim& value, std::size_t rank);
/// What integers, row-major, are as a function of their place; checked element by element.
std::optional<AffineIndex> fit_index(const std::vector<std::int64_t>& values,
                                     const std::vector<std::int64_t>& dims);

/// nullopt where the result has no affine expression, or overflows. Both of the same rank.
std::optional<AffineIndex> sum(const AffineIndex& a, const AffineIndex& b);
std::optional<AffineIndex> difference(const AffineIndex& a, const AffineIndex& b);
std::optional<AffineIndex> scaled(const AffineIndex& x, const ir::Dim& factor);
/// `x` as a function of the axes of a value of `rank` that it broadcasts to; nullopt when it has
/// more axes.
std::optional<AffineIndex> aligned(const AffineIndex& x, std::size_t rank);

/// Whether `d kind 0` is true (or false) at every place of a value of these dims, whatever the
/// symbols are; nullopt when it is not known or differs from place to place. Comparisons only.
std::optional<bool> holds_everywhere(ir::BinaryKind kind, const AffineIndex& d,
                                     const std::vector<ir::Dim>& dims);

/// What start becomes when an axis of `size` with this step is reduced; false when that is no
/// affine expression.
bool reduce_index(ir::ReduceKind kind, const ir::Dim& size, const ir::Dim& step, ir::Dim& start);

}  // namespace llmc::passes

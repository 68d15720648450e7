#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/plan/size.h"

/// Strided windows into buffers: what reshapes, transposes, slices and broadcasts become in an
/// emitted function, so that they cost nothing.
namespace llmc::plan {

/// Row-major strides, in elements.
Sizes row_major(const Sizes& dims);

/// Element i of the view is element `offset + sum i[d] * strides[d]` of a buffer. A stride of 0
/// repeats, a negative one reads backwards.
struct View {
  static constexpr std::uint32_t kNoBuffer = UINT32_MAX;

  std::uint32_t buffer = kNoBuffer;
  Sizes dims, strides;
  Size offset = 0;

  /// A whole buffer, row-major.
  static View dense(std::uint32_t buffer, Sizes dims);
  /// Whether the elements lie one behind the other in row-major order (from `offset` on).
  bool is_dense() const;
};

View transposed(const View& view, const std::vector<std::int64_t>& perm);
/// Numpy broadcasting to `dims`: repeated dims get a stride of 0.
View broadcast(const View& view, const Sizes& dims);
/// The same elements in row-major order under other dims; nullopt when no strides say that.
std::optional<View> reshaped(const View& view, const Sizes& dims);
/// Elements start, start + step, … (count of them) of one dim; all in range.
View sliced(const View& view, std::size_t axis, const Size& start, std::int64_t step,
            const Size& count);

/// Joins neighbouring dims of views over the same dims wherever all of them allow it, and drops
/// dims of 1: the loops that are left. The views keep their element order.
Sizes collapse(std::vector<View*> views);

}  // namespace llmc::plan

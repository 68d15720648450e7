#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/op.h"
#include "compiler/plan/size.h"

/// Strided views of buffers. The emitted source implements reshapes, transposes, slices and
/// broadcasts as views, without copying.
namespace llmc::plan {

/// Returns row-major strides in elements.
Sizes row_major(const Sizes& dims);

/// Element i of the view is element `offset + sum i[d] * strides[d]` of a buffer. A stride of 0
/// repeats elements; a negative stride reverses them.
struct View {
  static constexpr std::uint32_t kNoBuffer = UINT32_MAX;

  std::uint32_t buffer = kNoBuffer;
  Sizes dims, strides;
  Size offset = 0;

  /// Returns a row-major view of a whole buffer.
  static View dense(std::uint32_t buffer, Sizes dims);
  /// Returns whether the elements are contiguous in row-major order, starting at `offset`.
  bool is_dense() const;
};

View transposed(const View& view, const std::vector<std::int64_t>& perm);
/// Broadcasts the view to `dims` by the rules of NumPy: repeated dims get a stride of 0. A view of
/// one element may have more dims than `dims`.
View broadcast(const View& view, const Sizes& dims);
/// Returns the same elements in row-major order with other dims; nullopt if strides cannot express
/// this.
std::optional<View> reshaped(const View& view, const Sizes& dims);
/// Returns a view of `count` elements along one axis: start, start + step, …. All must be in range.
View sliced(const View& view, std::size_t axis, const Size& start, std::int64_t step,
            const Size& count);
/// Returns the windows of ir::Unfold over a view [N, size…, C]: [N, positions…, kernel…, C].
View unfolded(const View& view, const ir::Unfold& op, const Sizes& positions);

/// Merges adjacent dims of views with the same dims if the strides of all views allow it, and
/// removes dims of size 1. Returns the remaining dims, one per loop. The element order is
/// unchanged.
Sizes collapse(std::vector<View*> views);

}  // namespace llmc::plan

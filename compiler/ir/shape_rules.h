#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/op.h"

/// Index rules of ONNX, shared by inference, shape values and evaluation.
namespace llmc::ir {

/// The `count` indices start, start + step, ….
struct SliceRange {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};

/// Returns the range of indices that x[start:end:step] selects from a dim of size `dim`, as in ONNX
/// Slice-13. Negative `start` and `end` count from the end of the dim. Both are clamped, so
/// INT64_MAX and INT64_MIN represent the two ends. Requires step != 0.
inline SliceRange slice_range(std::int64_t dim, std::int64_t start, std::int64_t end,
                              std::int64_t step) {
  const auto from_end = [dim](std::int64_t i) { return i < 0 ? std::max(i, -dim - 1) + dim : i; };
  SliceRange range;
  range.step = step;
  if (dim <= 0) return range;
  if (step > 0) {
    start = std::clamp<std::int64_t>(from_end(start), 0, dim);
    end = std::clamp<std::int64_t>(from_end(end), 0, dim);
    if (end > start) range.count = (end - start - 1) / step + 1;
  } else {
    start = std::clamp<std::int64_t>(from_end(start), 0, dim - 1);
    end = std::clamp<std::int64_t>(from_end(end), -1, dim - 1);
    // Dividend and divisor are negative; end - start is at least -dim, so nothing overflows.
    if (start > end) range.count = (end - start + 1) / step + 1;
  }
  range.start = start;
  return range;
}

/// Returns [begin, end), the axes whose dims the Shape operator returns.
inline std::pair<std::size_t, std::size_t> shape_range(const Shape& op, std::size_t rank) {
  const auto range = slice_range(static_cast<std::int64_t>(rank), op.begin, op.end, 1);
  const auto begin = static_cast<std::size_t>(range.start);
  return {begin, begin + static_cast<std::size_t>(range.count)};
}

/// Returns `axis` counted from the front, or nullopt if it is outside [-rank, rank).
inline std::optional<std::size_t> normalize_axis(std::int64_t axis, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

/// Returns the axes counted from the front, in ascending order; nullopt if one is out of range or
/// occurs twice.
inline std::optional<std::vector<std::size_t>> normalize_axes(const std::vector<std::int64_t>& axes,
                                                              std::size_t rank) {
  std::vector<std::size_t> out;
  for (const std::int64_t axis : axes) {
    const auto normal = normalize_axis(axis, rank);
    if (!normal) return std::nullopt;
    out.push_back(*normal);
  }
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end()) return std::nullopt;
  return out;
}

}  // namespace llmc::ir

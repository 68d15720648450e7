#include "compiler/onnx/lowering.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "compiler/support/checked_math.h"

namespace llmc::importer {

using ir::BinaryKind;
using ir::ValueId;

ValueId reshaped(NodeContext& n, ValueId x, std::vector<std::int64_t> shape) {
  return n.make(ir::Reshape{}, {x, n.make_integers(std::move(shape))});
}

ValueId clipped(NodeContext& n, ValueId x, double low, double high) {
  return with_scalar(n, BinaryKind::kMin, with_scalar(n, BinaryKind::kMax, x, low), high);
}

namespace {

/// x/2 (1 + inner).
ValueId gelu(NodeContext& n, ValueId x, ValueId inner) {
  const ValueId half = with_scalar(n, BinaryKind::kMul, x, 0.5);
  return binary(n, BinaryKind::kMul, half, with_scalar(n, BinaryKind::kAdd, inner, 1));
}

}  // namespace

ValueId gelu_erf(NodeContext& n, ValueId x) {
  const ValueId scaled = with_scalar(n, BinaryKind::kMul, x, 1 / std::numbers::sqrt2);
  return gelu(n, x, unary(n, ir::UnaryKind::kErf, scaled));
}

ValueId gelu_tanh(NodeContext& n, ValueId x) {
  const ValueId cube = binary(n, BinaryKind::kMul, binary(n, BinaryKind::kMul, x, x), x);
  const ValueId sum =
      binary(n, BinaryKind::kAdd, x, with_scalar(n, BinaryKind::kMul, cube, 0.044715));
  const ValueId scaled = with_scalar(n, BinaryKind::kMul, sum, std::sqrt(2 / std::numbers::pi));
  return gelu(n, x, unary(n, ir::UnaryKind::kTanh, scaled));
}

std::optional<std::int64_t> known_dim(const NodeContext& n, ValueId x, std::int64_t axis) {
  if (!x.exists() || axis < 0 || axis >= n.rank(x)) return std::nullopt;
  return n.type(x).dims[static_cast<std::size_t>(axis)].constant();
}

ValueId dim_of(NodeContext& n, ValueId x, std::int64_t axis) {
  if (const auto size = known_dim(n, x, axis)) return n.make_integers({*size});
  return n.make(ir::Shape{axis, axis + 1}, {x});
}

ValueId shape_of(NodeContext& n, ValueId x) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < n.rank(x); ++i)
    if (const auto size = known_dim(n, x, i)) sizes.push_back(*size);
  if (static_cast<std::int64_t>(sizes.size()) == n.rank(x))
    return n.make_integers(std::move(sizes));
  return n.make(ir::Shape{0, n.rank(x)}, {x});
}

ValueId positions(NodeContext& n, ValueId x, std::int64_t axis) {
  return n.make(ir::Range{}, {n.make_integers({0}), dim_of(n, x, axis), n.make_integers({1})});
}

ValueId positions_along(NodeContext& n, ValueId x, std::int64_t axis) {
  if (n.failed()) return ir::kNoValue;
  std::vector<std::int64_t> shape(static_cast<std::size_t>(n.rank(x) - axis), 1);
  shape[0] = -1;
  return reshaped(n, positions(n, x, axis), std::move(shape));
}

ValueId flattened(NodeContext& n, ValueId x, std::int64_t axis) {
  if (n.failed()) return ir::kNoValue;
  const auto product = [&](std::int64_t begin, std::int64_t end) -> std::optional<std::int64_t> {
    std::vector<std::int64_t> sizes;
    for (std::int64_t i = begin; i < end; ++i) {
      const auto size = known_dim(n, x, i);
      if (!size) return std::nullopt;
      sizes.push_back(*size);
    }
    return checked_product(sizes);
  };
  const auto rows = product(0, axis), columns = product(axis, n.rank(x));
  if (rows && columns) {
    const ValueId shape = n.make_integers({*rows, *columns});
    return n.make(ir::Reshape{true}, {x, shape});
  }
  if (columns && *columns > 0) return reshaped(n, x, {-1, *columns});
  if (rows && *rows > 0) return reshaped(n, x, {*rows, -1});
  // Neither size is constant: compute each product at run time.
  const auto runtime = [&](std::int64_t begin, std::int64_t end) {
    return reduce(n, ir::ReduceKind::kProd, n.make(ir::Shape{begin, end}, {x}), {0});
  };
  const ValueId shape = n.make(ir::Concat{0}, {runtime(0, axis), runtime(axis, n.rank(x))});
  return n.make(ir::Reshape{}, {x, shape});
}

ValueId last_dim_part(NodeContext& n, ValueId x, std::int64_t begin, std::int64_t end) {
  return n.make(ir::Slice{}, {x, n.make_integers({begin}), n.make_integers({end}),
                              n.make_integers({n.rank(x) - 1})});
}

std::optional<std::int64_t> last_dim(NodeContext& n, ValueId x) {
  if (n.failed() || n.rank(x) == 0) return std::nullopt;
  return n.type(x).dims.back().constant();
}

ValueId unsqueezed(NodeContext& n, ValueId x, std::vector<std::int64_t> axes) {
  return n.make(ir::Unsqueeze{std::move(axes)}, {x});
}

ValueId rotated(NodeContext& n, ValueId x, ValueId cos, ValueId sin, std::int64_t rotary,
                bool interleaved) {
  const auto width = last_dim(n, x);
  if (!width) return ir::kNoValue;
  const std::int64_t half = rotary / 2, rank = n.rank(x);
  const ValueId turned = rotary == *width ? x : last_dim_part(n, x, 0, rotary);
  ValueId a, b;
  if (interleaved) {
    std::vector<std::int64_t> dims(static_cast<std::size_t>(rank) - 1, 0);
    dims.insert(dims.end(), {half, 2});
    const ValueId pairs = reshaped(n, turned, dims);
    const auto pick = [&](std::int64_t which) {
      return n.make(ir::Gather{rank}, {pairs, n.make_constant(ir::make_i64({}, {which}))});
    };
    a = pick(0);
    b = pick(1);
  } else {
    a = last_dim_part(n, turned, 0, half);
    b = last_dim_part(n, turned, half, rotary);
  }
  const ValueId first = binary(n, BinaryKind::kSub, binary(n, BinaryKind::kMul, a, cos),
                               binary(n, BinaryKind::kMul, b, sin));
  const ValueId second = binary(n, BinaryKind::kAdd, binary(n, BinaryKind::kMul, b, cos),
                                binary(n, BinaryKind::kMul, a, sin));
  if (n.failed()) return ir::kNoValue;
  ValueId result;
  if (interleaved) {
    const ValueId joined =
        n.make(ir::Concat{rank}, {unsqueezed(n, first, {rank}), unsqueezed(n, second, {rank})});
    std::vector<std::int64_t> dims(static_cast<std::size_t>(rank) - 1, 0);
    dims.push_back(rotary);
    result = reshaped(n, joined, dims);
  } else {
    result = n.make(ir::Concat{rank - 1}, {first, second});
  }
  if (rotary == *width) return result;
  return n.make(ir::Concat{rank - 1}, {result, last_dim_part(n, x, rotary, *width)});
}

ValueId with_past(NodeContext& n, std::size_t past, ValueId fresh, std::size_t slot) {
  const ValueId all = n.has(past) ? n.make(ir::Concat{2}, {n.in(past), fresh}) : fresh;
  n.bind(slot, all);
  return all;
}

ValueId repeated_heads(NodeContext& n, ValueId x, std::int64_t group) {
  if (group == 1 || n.failed()) return x;
  const auto heads = known_dim(n, x, 1), width = known_dim(n, x, 3);
  if (!heads) return n.unsupported("an unknown number of heads is not supported"), ir::kNoValue;
  const ValueId wide =
      n.make(ir::Expand{}, {unsqueezed(n, x, {2}), n.make_integers({1, 1, group, 1, 1})});
  if (width) return reshaped(n, wide, {0, *heads * group, -1, *width});
  const ValueId shape =
      n.make(ir::Concat{0}, {n.make_integers({0, *heads * group}), n.make(ir::Shape{2, 4}, {x})});
  return n.make(ir::Reshape{}, {wide, shape});
}

std::vector<std::int64_t> axis_range(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(std::max<std::int64_t>(0, end - begin)));
  std::iota(axes.begin(), axes.end(), begin);
  return axes;
}

}  // namespace llmc::importer

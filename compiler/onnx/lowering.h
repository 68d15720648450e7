#pragma once

#include <cstdint>
#include <vector>

#include "compiler/onnx/limits.h"
#include "compiler/onnx/node_context.h"

/// Helpers of converters that express an operator by simpler ones. Each appends nodes and returns
/// kNoValue after an error.
namespace llmc::importer {

inline ir::ValueId unary(NodeContext& n, ir::UnaryKind kind, ir::ValueId x) {
  return n.make(ir::Unary{kind}, {x});
}
inline ir::ValueId binary(NodeContext& n, ir::BinaryKind kind, ir::ValueId a, ir::ValueId b) {
  return n.make(ir::Binary{kind}, {a, b});
}
/// x · factor, x + addend, …, with a scalar of x's element type.
inline ir::ValueId with_scalar(NodeContext& n, ir::BinaryKind kind, ir::ValueId x, double scalar) {
  return binary(n, kind, x, n.make_scalar(scalar, x));
}
inline ir::ValueId reduce(NodeContext& n, ir::ReduceKind kind, ir::ValueId x,
                          std::vector<std::int64_t> axes, bool keep_dims = true) {
  return n.make(ir::Reduce{kind, std::move(axes), keep_dims}, {x});
}
/// Reshape to constant sizes (0 copies a dim, one -1 is inferred).
ir::ValueId reshaped(NodeContext& n, ir::ValueId x, std::vector<std::int64_t> shape);

/// min(max(x, low), high) with scalars.
ir::ValueId clipped(NodeContext& n, ir::ValueId x, double low, double high);

/// The size of a dim; nullopt if it is not constant.
std::optional<std::int64_t> known_dim(const NodeContext& n, ir::ValueId x, std::int64_t axis);
/// i64[1]: the size of a dim, or i64[rank]: all sizes; a constant if they are known.
ir::ValueId dim_of(NodeContext& n, ir::ValueId x, std::int64_t axis);
ir::ValueId shape_of(NodeContext& n, ir::ValueId x);

/// i64[n]: 0, 1, …, n - 1, where n is the size of dim `axis` of x.
ir::ValueId positions(NodeContext& n, ir::ValueId x, std::int64_t axis);
/// The same as [n, 1, …, 1], to broadcast along dim `axis` of x.
ir::ValueId positions_along(NodeContext& n, ir::ValueId x, std::int64_t axis);

/// x as a matrix: one dim for the dims before `axis`, one for the others. The axis of Softmax and
/// similar operators meant this until operator set 12.
ir::ValueId flattened(NodeContext& n, ir::ValueId x, std::int64_t axis);

/// The elements [begin, end) of x along its last dim.
ir::ValueId last_dim_part(NodeContext& n, ir::ValueId x, std::int64_t begin, std::int64_t end);
/// The size of the last dim; nullopt if it is not constant.
std::optional<std::int64_t> last_dim(NodeContext& n, ir::ValueId x);
ir::ValueId unsqueezed(NodeContext& n, ir::ValueId x, std::vector<std::int64_t> axes);

/// x [.., D] with its first `rotary` elements rotated: pairs (i, i + rotary/2), or (2i, 2i+1) when
/// interleaved. cos and sin broadcast to [.., rotary/2].
ir::ValueId rotated(NodeContext& n, ir::ValueId x, ir::ValueId cos, ir::ValueId sin,
                    std::int64_t rotary, bool interleaved);

/// [B, T, heads, D] as [B, heads, T, D] and back.
inline const std::vector<std::int64_t> kSwapHeadsAndTokens{0, 2, 1, 3};
/// Operand `past`, if present, concatenated with `fresh` along the tokens; also bound to output
/// `slot`.
ir::ValueId with_past(NodeContext& n, std::size_t past, ir::ValueId fresh, std::size_t slot);

/// [B, kv_heads, T, D] with each head repeated `group` times: [B, kv_heads * group, T, D].
ir::ValueId repeated_heads(NodeContext& n, ir::ValueId x, std::int64_t group);

/// The granularity of the scale and the zero point (operands 1 and 2) of a quantization: per
/// tensor, per index along an axis, or per block along it.
struct Granularity {
  bool whole = false;  // one for the tensor
  std::int64_t axis = 0, block = 1;
};
/// From the attributes 'axis' and 'block_size' and the type of operand 1. `dims`: of the quantized
/// tensor. nullopt with an error if they do not fit.
std::optional<Granularity> granularity(NodeContext& n, const std::vector<ir::Dim>& dims);
/// False with an error if the shape of the zero point, operand 2, differs from the scale's.
bool zero_point_fits(NodeContext& n);
/// A parameter in the shape `dims` or one that broadcasts to it.
ir::ValueId spread(NodeContext& n, ir::ValueId parameter, const std::vector<ir::Dim>& dims,
                   const Granularity& g);

/// [begin, …, end - 1]
std::vector<std::int64_t> axis_range(std::int64_t begin, std::int64_t end);

/// DynamicQuantizeLinear that returns its input unquantized: x, scale 1, zero point 0.
void bypass_quantize(NodeContext& n);
/// MatMulInteger of such an x with a constant matrix: the float product with the matrix minus its
/// zero points. The multiplication that follows applies the scale (passes/fuse_dynamic_quant.h).
void convert_float_product(NodeContext& n);

}  // namespace llmc::importer

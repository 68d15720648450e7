#pragma once

#include <cstdint>
#include <vector>

#include "compiler/onnx/limits.h"
#include "compiler/onnx/node_context.h"

/// Helpers for converters that express an operator by simpler operators. Those that return a
/// ValueId append nodes and return their result, or kNoValue after an error.
namespace llmc::importer {

/// Returns a / b rounded up, for a >= 0 and b > 0.
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

inline ir::ValueId unary(NodeContext& n, ir::UnaryKind kind, ir::ValueId x) {
  return n.make(ir::Unary{kind}, {x});
}
inline ir::ValueId binary(NodeContext& n, ir::BinaryKind kind, ir::ValueId a, ir::ValueId b) {
  return n.make(ir::Binary{kind}, {a, b});
}
/// Appends x · scalar, x + scalar, …, with a scalar of x's element type.
inline ir::ValueId with_scalar(NodeContext& n, ir::BinaryKind kind, ir::ValueId x, double scalar) {
  return binary(n, kind, x, n.make_scalar(scalar, x));
}
inline ir::ValueId reduce(NodeContext& n, ir::ReduceKind kind, ir::ValueId x,
                          std::vector<std::int64_t> axes, bool keep_dims = true) {
  return n.make(ir::Reduce{kind, std::move(axes), keep_dims}, {x});
}
/// Reshapes x to constant sizes. 0 copies a dim; one -1 is inferred.
ir::ValueId reshaped(NodeContext& n, ir::ValueId x, std::vector<std::int64_t> shape);

/// Appends min(max(x, low), high) with scalar bounds.
ir::ValueId clipped(NodeContext& n, ir::ValueId x, double low, double high);

/// Appends Gelu (Hendrycks & Gimpel 2016): x/2 (1 + erf(x/√2)).
ir::ValueId gelu_erf(NodeContext& n, ir::ValueId x);
/// Appends its approximation x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))).
ir::ValueId gelu_tanh(NodeContext& n, ir::ValueId x);

/// Returns the size of a dim; nullopt if it is not constant.
std::optional<std::int64_t> known_dim(const NodeContext& n, ir::ValueId x, std::int64_t axis);
/// Return the size of a dim as i64[1], or all sizes as i64[rank]. The value is a constant if the
/// sizes are known.
ir::ValueId dim_of(NodeContext& n, ir::ValueId x, std::int64_t axis);
ir::ValueId shape_of(NodeContext& n, ir::ValueId x);

/// Returns 0, 1, …, n - 1 as i64[n], where n is the size of dim `axis` of x.
ir::ValueId positions(NodeContext& n, ir::ValueId x, std::int64_t axis);
/// Returns positions() reshaped to [n, 1, …, 1], which is broadcast along dim `axis` of x.
ir::ValueId positions_along(NodeContext& n, ir::ValueId x, std::int64_t axis);

/// Returns x as a matrix: dims before `axis` become rows, the others columns. Until operator set
/// 12, Softmax and similar operators are applied to each row of this matrix.
ir::ValueId flattened(NodeContext& n, ir::ValueId x, std::int64_t axis);

/// Returns the elements [begin, end) of x along its last dim.
ir::ValueId last_dim_part(NodeContext& n, ir::ValueId x, std::int64_t begin, std::int64_t end);
/// Returns the size of the last dim; nullopt if it is not constant.
std::optional<std::int64_t> last_dim(NodeContext& n, ir::ValueId x);
ir::ValueId unsqueezed(NodeContext& n, ir::ValueId x, std::vector<std::int64_t> axes);

/// Returns x [.., D] with its first `rotary` elements rotated in pairs (i, i + rotary/2), or (2i,
/// 2i+1) if `interleaved`. cos and sin are broadcast to [.., rotary/2].
ir::ValueId rotated(NodeContext& n, ir::ValueId x, ir::ValueId cos, ir::ValueId sin,
                    std::int64_t rotary, bool interleaved);

/// Permutation from [B, T, heads, D] to [B, heads, T, D] and back.
inline const std::vector<std::int64_t> kSwapHeadsAndTokens{0, 2, 1, 3};
/// Returns operand `past`, if present, concatenated with `fresh` along the token axis, and binds
/// the result to output `slot`.
ir::ValueId with_past(NodeContext& n, std::size_t past, ir::ValueId fresh, std::size_t slot);

/// Returns x [B, kv_heads, T, D] with each head repeated `group` times: [B, kv_heads * group, T,
/// D].
ir::ValueId repeated_heads(NodeContext& n, ir::ValueId x, std::int64_t group);

/// A matrix [rows, columns] whose rows are quantized in blocks: which operands hold its parts.
struct PackedMatrix {
  int bits = 4;  // of a code; 4 or 8
  std::int64_t rows = 0, columns = 0;
  std::int64_t block = 0;   // columns for each scale
  std::int64_t stride = 0;  // codes from one row to the next
  std::size_t codes = 0, scales = 0, zero_points = 0;
};
/// Returns the matrix as a quantized constant (ir::make_quantized), which preserves its codes.
/// Codes are u8, low bits first. Zero points are floats, or packed like the codes with each row
/// padded to a byte. The default zero point is 2^(bits-1). Reports an error and returns nullptr if
/// operands are not constant or sizes do not match.
ir::ConstantPtr packed_matrix(NodeContext& n, const PackedMatrix& m);

/// The granularity of the scale and the zero point (operands 1 and 2) of a quantization: per
/// tensor, per index along an axis, or per block along it.
struct Granularity {
  bool whole = false;  // one scale for the tensor
  std::int64_t axis = 0, block = 1;
};
/// Returns the granularity given by the attributes 'axis' and 'block_size' and the type of operand
/// 1. `dims` are those of the quantized tensor. Reports an error and returns nullopt if they are
/// inconsistent.
std::optional<Granularity> granularity(NodeContext& n, const std::vector<ir::Dim>& dims);
/// Checks that the zero point, operand 2, if there is one, has the shape of the scale, or that both
/// have one element. Otherwise reports an error and returns false.
bool zero_point_fits(NodeContext& n);
/// Returns a scale or zero point in a shape that can be broadcast to `dims`.
ir::ValueId spread(NodeContext& n, ir::ValueId parameter, const std::vector<ir::Dim>& dims,
                   const Granularity& g);

/// Returns [begin, …, end - 1].
std::vector<std::int64_t> axis_range(std::int64_t begin, std::int64_t end);

/// Converts a DynamicQuantizeLinear to its unquantized input: codes x, scale 1, zero point 0.
void bypass_quantize(NodeContext& n);
/// Converts a MatMulInteger of a bypassed x and a constant matrix to the float product of x and the
/// matrix minus its zero points. A following multiplication applies the scale
/// (passes/fuse_dynamic_quant.cpp).
void convert_float_product(NodeContext& n);

}  // namespace llmc::importer

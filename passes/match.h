#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/index_map.h"
#include "compiler/ir/shape_rules.h"
#include "passes/rewrite.h"

/// Pattern matchers shared by the passes.
namespace llmc::passes {

using NodeIndex = Rewriter::NodeIndex;

/// Returns the element of a numeric constant with one element and any shape, otherwise nullopt.
std::optional<double> scalar_constant(const Rewriter& rw, ir::ValueId value);
/// Returns the elements of an integer or bool constant with at most 64 elements, otherwise nullopt.
std::optional<std::vector<std::int64_t>> integer_constant(const Rewriter& rw, ir::ValueId value);

/// Returns the elements of an integer value that is computed from dims, or of a constant of at most
/// 2^16 integers; otherwise nullopt.
std::optional<std::vector<ir::Dim>> known_integers(const Rewriter& rw, ir::ValueId value);
/// Returns ir::index_maps() of a result of `node`, using the integers known to the rewriter.
std::vector<ir::IndexMap> index_maps(const Rewriter& rw, const ir::Node& node,
                                     std::size_t slot = 0);

struct Operands {
  ir::ValueId left, right;
};
/// Returns the operands of `value` if its producer is a Binary of `kind`, otherwise nullopt.
std::optional<Operands> binary(const Rewriter& rw, ir::ValueId value, ir::BinaryKind kind);
/// Returns binary() and the same operands in the other order; empty if binary() is nullopt.
std::vector<Operands> either_order(const Rewriter& rw, ir::ValueId value, ir::BinaryKind kind);
/// Returns the operand of `value` if its producer is a Unary of `kind`, otherwise nullopt.
std::optional<ir::ValueId> unary(const Rewriter& rw, ir::ValueId value, ir::UnaryKind kind);

struct Scaled {
  ir::ValueId value;
  double scalar = 0;
};
/// Matches `value` with a Binary of `kind` of an operand and a scalar constant, and returns both.
/// For kAdd and kMul, the constant may be either operand, otherwise it must be the right one. The
/// operand must have the type of `value`.
std::optional<Scaled> with_scalar(const Rewriter& rw, ir::ValueId value, ir::BinaryKind kind);
/// Matches x * number, or x / number for a number other than 0. Scaled::scalar is the factor: the
/// number, or its reciprocal.
std::optional<Scaled> scalar_factor(const Rewriter& rw, ir::ValueId value);
/// If `value` is x + number or scalar_factor() of x, returns match(x) with `offset` and `slope`
/// changed so that offset + slope * y, which was x, is `value`. Otherwise returns nullopt.
template <class Match>
auto match_affine(const Rewriter& rw, ir::ValueId value, Match match) -> decltype(match(value)) {
  const auto sum = with_scalar(rw, value, ir::BinaryKind::kAdd);
  const auto factor = sum ? std::nullopt : scalar_factor(rw, value);
  if (!sum && !factor) return std::nullopt;
  auto found = match(sum ? sum->value : factor->value);
  if (!found) return std::nullopt;
  if (sum) {
    found->offset += sum->scalar;
  } else {
    found->offset *= factor->scalar;
    found->slope *= factor->scalar;
  }
  return found;
}

/// Follows Reshape, Squeeze, Unsqueeze, Identity and Cast to the same type backwards. Returns the
/// earliest value, whose elements in row-major order are those of `value`.
ir::ValueId strip_views(const Rewriter& rw, ir::ValueId value);

/// Returns the last dim of the value; nullopt if it is symbolic or the rank is 0.
std::optional<std::int64_t> last_dim(const Rewriter& rw, ir::ValueId value);
/// Returns the dims other than 1.
std::vector<ir::Dim> without_ones(std::vector<ir::Dim> dims);
/// Returns whether the value is an f32 tensor of at least `rank` dims.
bool is_f32(const Rewriter& rw, ir::ValueId value, std::size_t rank = 0);
/// Return whether the last axis of a tensor of rank `rank` is the only axis in `axes`, or is
/// `axis`. Axes may be negative (counted from the end).
bool is_last_axis(const std::vector<std::int64_t>& axes, std::size_t rank);
bool is_last_axis(std::int64_t axis, std::size_t rank);

/// Returns the nonempty rank-2 float constant that is `value`, or from which Transposes and Casts
/// that widen to f32 compute it. The result has the dims of `value` and the element type of the
/// constant; it is a lazy view, and no data is read. Returns nullptr for other values.
ir::ConstantPtr matrix_constant(const Rewriter& rw, ir::ValueId value);
/// Returns a float constant with one element for each index along the last dim n of `like`, as
/// f32[n]. Its dims are [n] or [1, …, 1, n], and its rank is at most that of `like`. Returns
/// nullptr for other values.
ir::ConstantPtr row_constant(const Rewriter& rw, ir::ValueId value, ir::ValueId like);
/// Returns a constant with `data`: `value` itself if it is that constant, otherwise an emitted one
/// with its name.
ir::ValueId constant_operand(Rewriter& rw, ir::ValueId value, const ir::ConstantPtr& data,
                             NodeIndex anchor);

/// Returns whether two constants have the same element type, dims and bytes. Constants larger than
/// `limit` bytes are equal only if they are the same object.
bool same_data(const ir::ConstantPtr& a, const ir::ConstantPtr& b,
               std::size_t limit = std::size_t{1} << 20);

/// Returns the shape operand of a Reshape from `from` to `to`. A dim that is symbolic or 0 is
/// represented by 0 if `from` has the same dim at that axis. One other symbolic dim is represented
/// by -1. Returns nullopt if more dims are symbolic or 0, or if both 0 and -1 are needed.
std::optional<std::vector<std::int64_t>> reshape_spec(const ir::TensorType& from,
                                                      const std::vector<ir::Dim>& to);
/// Emits a Reshape of `value` to `dims` and returns its result, or returns `value` if it has these
/// dims. Returns kNoValue if reshape_spec() returns nullopt.
ir::ValueId emit_reshape(Rewriter& rw, ir::ValueId value, const std::vector<ir::Dim>& dims,
                         NodeIndex anchor);
/// Emits an i64[n] constant.
ir::ValueId emit_integers(Rewriter& rw, std::vector<std::int64_t> values, NodeIndex anchor);
/// Emits the elements begin <= e < end along the last axis.
ir::ValueId slice_last(Rewriter& rw, ir::ValueId value, std::int64_t begin, std::int64_t end,
                       NodeIndex anchor);
/// Emits `value` padded with zeros to `width` elements along the last axis; returns `value` if it
/// has this width, which must be a number.
ir::ValueId pad_last(Rewriter& rw, ir::ValueId value, std::int64_t width, NodeIndex anchor);

}  // namespace llmc::passes

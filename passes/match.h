#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/index_map.h"
#include "compiler/ir/shape_rules.h"
#include "passes/rewrite.h"

/// Small pattern matchers that the passes share.
namespace llmc::passes {

using NodeIndex = Rewriter::NodeIndex;

/// The one element of a numeric constant (any shape), or nullopt.
std::optional<double> scalar_constant(const Rewriter& rw, ir::ValueId value);
/// The elements of a small integer constant, or nullopt.
std::optional<std::vector<std::int64_t>> integer_constant(const Rewriter& rw, ir::ValueId value);

/// The elements of an integer value that is a constant or made of dims, or nullopt.
std::optional<std::vector<ir::Dim>> known_integers(const Rewriter& rw, ir::ValueId value);
/// ir::index_maps of a result of `node`, with the integers that are known.
std::vector<ir::IndexMap> index_maps(const Rewriter& rw, const ir::Node& node,
                                     std::size_t slot = 0);

struct Operands {
  ir::ValueId left, right;
};
/// Operands of `value` when a Binary of `kind` makes it.
std::optional<Operands> binary(const Rewriter& rw, ir::ValueId value, ir::BinaryKind kind);
/// Operand of `value` when a Unary of `kind` makes it.
std::optional<ir::ValueId> unary(const Rewriter& rw, ir::ValueId value, ir::UnaryKind kind);

struct Scaled {
  ir::ValueId value;
  double scalar = 0;
};
/// `value` as operand (kind) scalar constant. For add and mul the constant may stand on either
/// side, otherwise on the right. The constant must not change the type.
std::optional<Scaled> with_scalar(const Rewriter& rw, ir::ValueId value, ir::BinaryKind kind);

/// `value` without the nodes above it that leave its row-major elements alone: Reshape, Squeeze,
/// Unsqueeze, Identity, Cast to the same type.
ir::ValueId strip_views(const Rewriter& rw, ir::ValueId value);

/// Constant dims of the value from `begin` on; nullopt when one of them is a symbol.
std::optional<std::int64_t> last_dim(const Rewriter& rw, ir::ValueId value);
/// Whether the value is an f32 tensor of at least `rank` dims.
bool is_f32(const Rewriter& rw, ir::ValueId value, std::size_t rank = 0);
/// Whether `axes` is the last axis of a tensor of `rank`, written either way.
bool is_last_axis(const std::vector<std::int64_t>& axes, std::size_t rank);
bool is_last_axis(std::int64_t axis, std::size_t rank);

/// The rank-2 float constant behind `value`, as [rows, columns]: through Cast between float types
/// and Transpose, which become a lazy view. Nothing is read.
ir::ConstantPtr matrix_constant(const Rewriter& rw, ir::ValueId value);
/// A float constant that scales or shifts the last dim of `like`, as f32[n]: its dims are n, or 1s
/// and then n, and its rank is at most that of `like`. nullptr otherwise.
ir::ConstantPtr row_constant(const Rewriter& rw, ir::ValueId value, ir::ValueId like);

/// Whether two constants have the same element type, dims and bytes. Compares at most `limit` bytes
/// of each; larger ones are equal only when they are the same object.
bool same_data(const ir::ConstantPtr& a, const ir::ConstantPtr& b,
               std::size_t limit = std::size_t{1} << 20);

/// i64 constant operand for Reshape that turns `from` into `to`: dims that stand in the same place
/// become 0, or else one dim that is not a number becomes -1. nullopt when neither describes it.
std::optional<std::vector<std::int64_t>> reshape_spec(const ir::TensorType& from,
                                                      const std::vector<ir::Dim>& to);
/// `value` reshaped to `dims`, or `value` itself when it has them. kNoValue when reshape_spec
/// cannot say it.
ir::ValueId emit_reshape(Rewriter& rw, ir::ValueId value, const std::vector<ir::Dim>& dims,
                         NodeIndex anchor);
/// i64[n] constant.
ir::ValueId emit_integers(Rewriter& rw, std::vector<std::int64_t> values, NodeIndex anchor);

/// "a + b + c": what to call a matrix stacked from others. Empty when one of them has no name.
std::string stacked_name(const Rewriter& rw, const std::vector<ir::ValueId>& values);

}  // namespace llmc::passes

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/index_map.h"
#include "compiler/ir/shape_rules.h"
#include "passes/rewrite.h"

/// Pattern matchers shared by the passes.
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
/// Operands of `value` if its producer is a Binary of `kind`.
std::optional<Operands> binary(const Rewriter& rw, ir::ValueId value, ir::BinaryKind kind);
/// Operand of `value` if its producer is a Unary of `kind`.
std::optional<ir::ValueId> unary(const Rewriter& rw, ir::ValueId value, ir::UnaryKind kind);

struct Scaled {
  ir::ValueId value;
  double scalar = 0;
};
/// `value` as operand (kind) scalar constant. The constant of add and mul may be either operand,
/// otherwise it is the right one. The constant must not change the type.
std::optional<Scaled> with_scalar(const Rewriter& rw, ir::ValueId value, ir::BinaryKind kind);

/// The value that `value` is a view of with the same elements in row-major order: without Reshape,
/// Squeeze, Unsqueeze, Identity and Cast to the same type.
ir::ValueId strip_views(const Rewriter& rw, ir::ValueId value);

/// The last dim of the value; nullopt if it is symbolic or the rank is 0.
std::optional<std::int64_t> last_dim(const Rewriter& rw, ir::ValueId value);
/// Whether the value is an f32 tensor of at least `rank` dims.
bool is_f32(const Rewriter& rw, ir::ValueId value, std::size_t rank = 0);
/// Whether `axes` is the last axis of a tensor of `rank`, counted from either end.
bool is_last_axis(const std::vector<std::int64_t>& axes, std::size_t rank);
bool is_last_axis(std::int64_t axis, std::size_t rank);

/// The rank-2 float constant [rows, columns], not empty, that `value` is, through Casts that widen
/// to f32 and
/// Transposes; the result is a lazy view, no data is read. nullptr if there is none.
ir::ConstantPtr matrix_constant(const Rewriter& rw, ir::ValueId value);
/// A float constant that scales or shifts the last dim of `like`, as f32[n]: its dims are n, or 1s
/// and then n, and its rank is at most that of `like`. nullptr otherwise.
ir::ConstantPtr row_constant(const Rewriter& rw, ir::ValueId value, ir::ValueId like);

/// Whether two constants have the same element type, dims and bytes. Compares at most `limit` bytes
/// of each; larger ones are equal only if they are the same object.
bool same_data(const ir::ConstantPtr& a, const ir::ConstantPtr& b,
               std::size_t limit = std::size_t{1} << 20);

/// Shape operand for a Reshape from `from` to `to`: symbolic dims become 0 if `from` has the same
/// dim at that axis, or one of them -1. nullopt if that does not describe `to`.
std::optional<std::vector<std::int64_t>> reshape_spec(const ir::TensorType& from,
                                                      const std::vector<ir::Dim>& to);
/// `value` reshaped to `dims`, or `value` itself if it has them. kNoValue if reshape_spec is
/// nullopt.
ir::ValueId emit_reshape(Rewriter& rw, ir::ValueId value, const std::vector<ir::Dim>& dims,
                         NodeIndex anchor);
/// i64[n] constant.
ir::ValueId emit_integers(Rewriter& rw, std::vector<std::int64_t> values, NodeIndex anchor);

/// "a + b + c": name of a matrix stacked from others. Empty if one of them has no name.
std::string stacked_name(const Rewriter& rw, const std::vector<ir::ValueId>& values);

}  // namespace llmc::passes

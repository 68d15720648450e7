#include <algorithm>

#include "passes/channels.h"
#include "passes/match.h"
#include "passes/transforms.h"

namespace llmc::passes {

namespace {

using ir::Dim;
using ir::ValueId;

/// Returns x if `value` is x with its last axis, the channels, moved to position 1 and at least
/// three dims; otherwise kNoValue.
ValueId channels_last_source(const Rewriter& rw, ValueId value) {
  const auto* transpose = rw.op<ir::Transpose>(value);
  const bool moves = transpose && transpose->perm.size() >= 3 &&
                     transpose->perm == channels_first(transpose->perm.size());
  return moves ? rw.producer(value)->inputs[0] : ir::kNoValue;
}

/// Returns `value`, an operand that is broadcast to a result of rank `rank` with the channels at
/// position 1, for the same result with the channels last: the source of its transpose, its
/// transpose if there is one, a single element, or an operand for which the transpose is a reshape,
/// because it has the same elements for all channels or for all positions. Returns kNoValue for
/// other operands.
ValueId with_channels_last(Rewriter& rw, ValueId value, std::size_t rank, NodeIndex anchor) {
  std::vector<Dim> dims = rw.type(value).dims;
  if (const ValueId x = channels_last_source(rw, value); x.exists() && dims.size() == rank)
    return x;
  if (std::ranges::all_of(dims, [](const Dim& dim) { return dim == Dim(1); })) return value;
  // A convolution that reads the value has transposed it.
  if (dims.size() == rank)
    for (const NodeIndex user : rw.users(value))
      if (const auto* transpose = std::get_if<ir::Transpose>(&rw.node(user).op);
          transpose && transpose->perm == channels_last(rank))
        return rw.node(user).outputs[0];
  dims.insert(dims.begin(), rank - dims.size(), Dim(1));
  const auto is_one = [](const Dim& dim) { return dim == Dim(1); };
  if (!is_one(dims[1]) && !std::all_of(dims.begin() + 2, dims.end(), is_one)) return ir::kNoValue;
  std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  return emit_reshape(rw, value, dims, anchor);
}

/// Returns the axis that, with the channels last, corresponds to `axis` of `rank`; it may be
/// negative (counted from the end).
std::int64_t moved_axis(std::int64_t axis, std::size_t rank) {
  return channels_first(rank)[*ir::normalize_axis(axis, rank)];
}

std::vector<std::int64_t> moved_axes(std::vector<std::int64_t> axes, std::size_t rank) {
  for (std::int64_t& axis : axes) axis = moved_axis(axis, rank);
  return axes;
}

/// Emits an elementwise operator or a Concat of operands that are all transposed or, if
/// elementwise, broadcast.
ValueId sink_elementwise(Rewriter& rw, const ir::Node& node, NodeIndex i) {
  const std::size_t rank = rw.type(node.outputs[0]).rank();
  const auto moved = [&](ValueId value) { return channels_last_source(rw, value).exists(); };
  const auto* concat = std::get_if<ir::Concat>(&node.op);
  if (std::ranges::none_of(node.inputs, moved)) return ir::kNoValue;
  if (concat && !std::ranges::all_of(node.inputs, moved)) return ir::kNoValue;
  std::vector<ValueId> inputs;
  for (const ValueId input : node.inputs) {
    inputs.push_back(with_channels_last(rw, input, rank, i));
    if (!inputs.back().exists()) return ir::kNoValue;
  }
  return concat ? rw.emit(ir::Concat{moved_axis(concat->axis, rank)}, std::move(inputs), i)
                : rw.emit(node.op, std::move(inputs), i);
}

/// Emits a Gather along one axis, a Slice, a Pad or a Reduce of a transposed operand, if it keeps
/// the rank.
ValueId sink_along_axes(Rewriter& rw, const ir::Node& node, NodeIndex i) {
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = channels_last_source(rw, inputs[0]);
  if (!inputs[0].exists()) return ir::kNoValue;
  const std::size_t rank = rw.type(inputs[0]).rank();
  if (std::holds_alternative<ir::Pad>(node.op)) return pad_channels_last(rw, node, inputs[0], i);
  if (const auto* gather = std::get_if<ir::Gather>(&node.op)) {
    if (rw.type(inputs[1]).rank() != 1) return ir::kNoValue;
    return rw.emit(ir::Gather{moved_axis(gather->axis, rank)}, std::move(inputs), i);
  }
  if (const auto* reduce = std::get_if<ir::Reduce>(&node.op)) {
    if (!reduce->keep_dims) return ir::kNoValue;
    return rw.emit(ir::Reduce{reduce->kind, moved_axes(reduce->axes, rank), true},
                   std::move(inputs), i);
  }
  const auto axes = node.operand(3).exists() ? integer_constant(rw, node.operand(3)) : std::nullopt;
  if (!axes) return ir::kNoValue;
  inputs[3] = emit_integers(rw, moved_axes(*axes, rank), i);
  return rw.emit(node.op, std::move(inputs), i);
}

/// Emits a reshape of a transposed operand that keeps its first two dims and has three dims or
/// more.
ValueId sink_reshape(Rewriter& rw, const ir::Node& node, NodeIndex i) {
  const ValueId x = channels_last_source(rw, node.inputs[0]);
  if (!x.exists()) return ir::kNoValue;
  std::vector<Dim> dims = rw.type(node.outputs[0]).dims;
  const std::vector<Dim>& from = rw.type(node.inputs[0]).dims;
  if (dims.size() < 3 || dims[0] != from[0] || dims[1] != from[1]) return ir::kNoValue;
  std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  return emit_reshape(rw, x, dims, i);
}

void sink(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const ValueId result = node.outputs[0];
  const ir::Origin origin = rw.origin(result);
  const bool along_axes = ir::is_any<ir::Gather, ir::Slice, ir::Pad, ir::Reduce>(node.op);
  const ValueId last = ir::is_reshape(node.op) ? sink_reshape(rw, node, i)
                       : along_axes            ? sink_along_axes(rw, node, i)
                                               : sink_elementwise(rw, node, i);
  if (!last.exists()) return;
  rw.set_origin(last, origin);
  rw.replace(result, rw.emit(ir::Transpose{channels_first(rw.type(last).rank())}, {last}, i));
}

}  // namespace

Result<ir::Graph> sink_transposes(ir::Graph graph, const PassContext&) {
  return rewrite_nodes<ir::Unary, ir::Binary, ir::Where, ir::Cast, ir::Concat, ir::Gather,
                       ir::Slice, ir::Pad, ir::Reduce, ir::Reshape, ir::Squeeze, ir::Unsqueeze>(
      std::move(graph), sink);
}

}  // namespace llmc::passes

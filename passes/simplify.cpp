#include <algorithm>
#include <numeric>

#include "passes/index_analysis.h"
#include "passes/match.h"
#include "passes/transforms.h"

namespace llmc::passes {

namespace {

using ir::BinaryKind;
using ir::ValueId;

/// Maximum size of a dim that is partly overwritten. It bounds the tables of indices that a step
/// above 1 needs.
constexpr std::int64_t kMaxOverwritten = 1 << 16;

/// Returns whether the steps of a slice are absent or a constant of ones.
bool steps_are_one(const Rewriter& rw, const ir::Node& node) {
  if (!node.operand(4).exists()) return true;
  const auto steps = integer_constant(rw, node.inputs[4]);
  return steps && std::ranges::all_of(*steps, [](auto s) { return s == 1; });
}

/// Returns the operand x of a Pad if the Slice of it is exactly x, otherwise kNoValue. Supports
/// only padding at the end.
ValueId before_padding(const Rewriter& rw, const ir::Node& slice) {
  const ValueId padded = slice.inputs[0];
  const auto* pad = rw.op<ir::Pad>(padded);
  if (!pad || rw.producer(padded)->inputs.size() != 2) return ir::kNoValue;
  const ValueId x = rw.producer(padded)->inputs[0];
  const auto pads = integer_constant(rw, rw.producer(padded)->inputs[1]);
  const auto maps = index_maps(rw, slice);
  const std::size_t rank = rw.type(x).rank();
  if (!pads || pads->size() != 2 * rank || maps.size() != 1 ||
      rw.type(x) != rw.type(slice.outputs[0]))
    return ir::kNoValue;
  for (std::size_t a = 0; a < rank; ++a)
    if ((*pads)[a] != 0 || maps[0].axes[a].result_axis() != a) return ir::kNoValue;
  return x;
}

/// Returns the operand that equals the result of a node without effect, otherwise kNoValue.
ValueId passed_through(const Rewriter& rw, const ir::Node& node) {
  if (node.inputs.empty() || node.outputs.size() != 1) return ir::kNoValue;
  const ValueId x = node.inputs[0], y = node.outputs[0];
  const bool same = rw.type(x) == rw.type(y);
  if (const auto* un = std::get_if<ir::Unary>(&node.op)) {
    if (un->kind == ir::UnaryKind::kIdentity) return x;
    if (un->kind != ir::UnaryKind::kNeg) return ir::kNoValue;
    return unary(rw, x, ir::UnaryKind::kNeg).value_or(ir::kNoValue);
  }
  if (const auto* transpose = std::get_if<ir::Transpose>(&node.op))
    return std::ranges::is_sorted(transpose->perm) ? x : ir::kNoValue;
  if (std::holds_alternative<ir::Concat>(node.op)) {
    if (node.inputs.size() == 1) return x;
    return ir::kNoValue;
  }
  if (ir::is_any<ir::Cast, ir::Expand, ir::Tile, ir::Split>(node.op) || ir::is_reshape(node.op))
    return same ? x : ir::kNoValue;
  if (std::holds_alternative<ir::Slice>(node.op))
    return same && steps_are_one(rw, node) ? x : before_padding(rw, node);
  if (std::holds_alternative<ir::ScatterNd>(node.op))
    return std::ranges::any_of(rw.type(node.inputs[2]).dims, ir::is_zero) ? x : ir::kNoValue;
  if (std::holds_alternative<ir::Where>(node.op)) {
    const auto condition = scalar_constant(rw, x);
    const ValueId kept = condition ? node.inputs[*condition != 0 ? 1 : 2] : ir::kNoValue;
    return kept.exists() && rw.type(kept) == rw.type(y) ? kept : ir::kNoValue;
  }
  if (const auto* bin = std::get_if<ir::Binary>(&node.op)) {
    const auto neutral = [&](BinaryKind kind, double value) {
      const auto found = with_scalar(rw, y, kind);
      return bin->kind == kind && found && found->scalar == value ? found->value : ir::kNoValue;
    };
    for (ValueId kept : {neutral(BinaryKind::kMul, 1), neutral(BinaryKind::kDiv, 1),
                         neutral(BinaryKind::kSub, 0), neutral(BinaryKind::kPow, 1)})
      if (kept.exists()) return kept;
  }
  return ir::kNoValue;
}

bool merge_views(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  if (!ir::is_reshape(node.op)) return false;
  const ir::Node* above = rw.producer(node.inputs[0]);
  if (!above || !ir::is_reshape(above->op)) return false;
  const ValueId x = above->inputs[0], y = node.outputs[0];
  const std::vector<ir::Dim> dims = rw.type(y).dims;
  const ValueId merged = emit_reshape(rw, x, dims, i);
  if (!merged.exists()) return false;
  rw.replace(y, merged);
  return true;
}

bool merge_transposes(Rewriter& rw, NodeIndex i) {
  const auto* outer = std::get_if<ir::Transpose>(&rw.node(i).op);
  if (!outer) return false;
  const ValueId middle = rw.node(i).inputs[0];
  const auto* inner = rw.op<ir::Transpose>(middle);
  if (!inner || inner->perm.size() != outer->perm.size()) return false;
  std::vector<std::int64_t> perm;
  for (std::int64_t axis : outer->perm) perm.push_back(inner->perm[static_cast<std::size_t>(axis)]);
  const ValueId x = rw.producer(middle)->inputs[0];
  rw.replace(rw.node(i).outputs[0],
             std::ranges::is_sorted(perm) ? x : rw.emit(ir::Transpose{perm}, {x}, i));
  return true;
}

/// Returns the operand of `concat` that, except for dims of 1, equals result `slot` of `node`, a
/// view of `concat`; kNoValue if there is none. Supports only operands at constant offsets.
ValueId part_of_concat(const Rewriter& rw, const ir::Node& node, std::size_t slot,
                       const ir::Node& concat) {
  const auto views = index_maps(rw, node, slot);
  if (views.size() != 1) return ir::kNoValue;
  const std::vector<ir::Dim>& to = rw.type(node.outputs[slot]).dims;
  for (const ir::IndexMap& map : index_maps(rw, concat)) {
    const auto& [axis, begin, size] = *map.range;
    const std::vector<ir::Dim>& from = rw.type(concat.inputs[map.operand]).dims;
    if (!begin.is_constant() || !size.is_constant() || size == ir::Dim(0)) continue;
    std::size_t next = 0;  // result axis
    bool whole = true;
    for (std::size_t a = 0; a < from.size() && whole; ++a) {
      ir::AxisIndex index = views[0].axes[a];
      whole = index.table.empty() && index.start == (a == axis ? begin : ir::Dim(0));
      if (!whole || from[a] == ir::Dim(1)) continue;
      index.start = 0;
      const auto k = index.result_axis();
      whole = k && *k >= next && to[*k] == from[a];
      if (whole) next = *k + 1;
    }
    const auto elements = [](const std::vector<ir::Dim>& dims) {
      return dims.size() - static_cast<std::size_t>(std::ranges::count(dims, ir::Dim(1)));
    };
    if (whole && elements(from) == elements(to)) return concat.inputs[map.operand];
  }
  return ir::kNoValue;
}

bool view_of_concat(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const bool cuts = ir::is_any<ir::Split, ir::Slice, ir::Gather>(node.op);
  if (!cuts || !rw.op<ir::Concat>(node.inputs[0])) return false;
  const ir::Node& concat = *rw.producer(node.inputs[0]);
  std::vector<ValueId> parts;
  for (std::size_t slot = 0; slot < node.outputs.size(); ++slot) {
    const ValueId part = part_of_concat(rw, node, slot, concat);
    if (!part.exists()) return false;
    const ir::TensorType &from = rw.type(part), &to = rw.type(node.outputs[slot]);
    if (from.rank() == to.rank() && from != to) return false;
    parts.push_back(part);
  }
  for (std::size_t slot = 0; slot < parts.size(); ++slot) {
    const ValueId result = node.outputs[slot];
    if (rw.type(result).rank() < rw.type(parts[slot]).rank())
      parts[slot] = rw.emit(ir::Squeeze{{std::get<ir::Concat>(concat.op).axis}}, {parts[slot]}, i);
    rw.replace(result, parts[slot]);
  }
  return true;
}

bool concat_of_split(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const auto* concat = std::get_if<ir::Concat>(&node.op);
  if (!concat) return false;
  const ir::Node* above = rw.producer(node.inputs[0]);
  const auto* split = ir::op_as<ir::Split>(above);
  if (!split || split->axis != concat->axis || above->outputs != node.inputs) return false;
  rw.replace(node.outputs[0], above->inputs[0]);
  return true;
}

bool concat_of_empty(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const auto* concat = std::get_if<ir::Concat>(&node.op);
  if (!concat) return false;
  const auto axis = ir::normalize_axis(concat->axis, rw.type(node.outputs[0]).rank());
  if (!axis) return false;
  std::vector<ValueId> parts = node.inputs;
  std::erase_if(parts, [&](ValueId part) { return rw.type(part).dims[*axis] == ir::Dim(0); });
  if (parts.empty() || parts.size() == node.inputs.size()) return false;
  const ValueId result = node.outputs[0];
  if (parts.size() > 1) {
    rw.replace(result, rw.emit(ir::Concat{concat->axis}, std::move(parts), i));
    return true;
  }
  if (rw.type(parts[0]) != rw.type(result) || rw.needs_identity(result, parts[0])) return false;
  rw.replace(result, parts[0]);
  return true;
}

bool last_row_as_gather(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  using Integers = std::vector<std::int64_t>;
  if (!std::holds_alternative<ir::Slice>(node.op) || !steps_are_one(rw, node) ||
      integer_constant(rw, node.inputs[1]) != Integers{-1} ||
      integer_constant(rw, node.inputs[2]) != Integers{INT64_MAX})
    return false;
  const bool has_axes = node.operand(3).exists();
  const auto axes = has_axes ? integer_constant(rw, node.inputs[3]) : Integers{0};
  const ir::TensorType& type = rw.type(node.inputs[0]);
  const auto axis =
      axes && axes->size() == 1 ? ir::normalize_axis((*axes)[0], type.rank()) : std::nullopt;
  // If the size were 0, the slice would be empty, but the gather would fail. A sequence is never
  // empty; the cached tokens may be.
  const bool may_be_empty = axis && type.dims[*axis] == ir::Dim::symbol("past");
  if (!axis || may_be_empty || type.dims[*axis].constant()) return false;
  const ValueId index = emit_integers(rw, {-1}, i);
  rw.replace(node.outputs[0],
             rw.emit(ir::Gather{static_cast<std::int64_t>(*axis)}, {node.inputs[0], index}, i));
  return true;
}

/// Replaces a slice of the first token's row by a Gather, whose size is known. A sequence is never
/// empty.
bool first_row_as_gather(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  if (!std::holds_alternative<ir::Slice>(node.op) || !steps_are_one(rw, node)) return false;
  const auto starts = integer_constant(rw, node.inputs[1]);
  const auto ends = integer_constant(rw, node.inputs[2]);
  const bool has_axes = node.operand(3).exists();
  const auto axes = has_axes ? integer_constant(rw, node.inputs[3]) : std::nullopt;
  const ir::TensorType& type = rw.type(node.inputs[0]);
  if (!starts || !ends || starts->size() != ends->size() || (has_axes && !axes)) return false;
  std::optional<std::size_t> rows;
  for (std::size_t k = 0; k < starts->size(); ++k) {
    const auto axis =
        ir::normalize_axis(axes ? (*axes)[k] : static_cast<std::int64_t>(k), type.rank());
    const bool whole = (*ends)[k] == INT64_MAX;
    if (!axis || (*starts)[k] != 0 || (!whole && (rows || (*ends)[k] != 1))) return false;
    if (!whole) rows = axis;
  }
  if (!rows || type.dims[*rows] != ir::Dim::symbol("seq")) return false;
  const ir::Gather gather{static_cast<std::int64_t>(*rows)};
  const ValueId index = emit_integers(rw, {0}, i);
  rw.replace(node.outputs[0], rw.emit(gather, {node.inputs[0], index}, i));
  return true;
}

/// Returns the operand of the Expand or Tile `value` if it is a column: aligned with the last of
/// `rank` axes, all its dims except that of `axis` are 1, and `value` has the same dim there.
/// Otherwise returns kNoValue.
ValueId repeated_column(const Rewriter& rw, ValueId value, std::size_t axis, std::size_t rank) {
  if (!rw.op<ir::Expand>(value) && !rw.op<ir::Tile>(value)) return ir::kNoValue;
  const ValueId column = rw.producer(value)->inputs[0];
  const std::vector<ir::Dim>& dims = rw.type(column).dims;
  if (dims.size() > rank || dims.size() + axis < rank) return ir::kNoValue;
  const std::size_t at = axis + dims.size() - rank;
  for (std::size_t a = 0; a < dims.size(); ++a)
    if (a != at && dims[a] != ir::Dim(1)) return ir::kNoValue;
  return at < dims.size() && dims[at] == rw.type(value).dims[axis] ? column : ir::kNoValue;
}

bool rows_of_elements(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const auto* gather = std::get_if<ir::GatherElements>(&node.op);
  if (!gather) return false;
  const std::vector<ir::Dim> data = rw.type(node.inputs[0]).dims;
  const std::vector<ir::Dim> result = rw.type(node.outputs[0]).dims;
  const auto axis = ir::normalize_axis(gather->axis, data.size());
  if (!axis || data.size() != result.size()) return false;
  for (std::size_t a = 0; a < data.size(); ++a)
    if (a < *axis ? data[a] != ir::Dim(1) || result[a] != ir::Dim(1)
                  : a > *axis && data[a] != result[a])
      return false;
  const ValueId column = repeated_column(rw, node.inputs[1], *axis, data.size());
  if (!column.exists()) return false;
  const auto from = static_cast<std::ptrdiff_t>(*axis);
  const ValueId table =
      emit_reshape(rw, node.inputs[0], std::vector<ir::Dim>(data.begin() + from, data.end()), i);
  const ValueId rows = emit_reshape(rw, column, {result[*axis]}, i);
  if (!table.exists() || !rows.exists()) return false;
  const ValueId taken = rw.emit(ir::Gather{0}, {table, rows}, i);
  const ValueId shaped = emit_reshape(rw, taken, result, i);
  if (!shaped.exists()) return false;
  rw.replace(node.outputs[0], shaped);
  return true;
}

/// Replaces a GatherNd whose indices have one component by a Gather along the first axis.
bool gather_of_one_component(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const auto* gather = std::get_if<ir::GatherNd>(&node.op);
  if (!gather || gather->batch_dims != 0) return false;
  std::vector<ir::Dim> dims = rw.type(node.inputs[1]).dims;
  if (dims.empty() || !(dims.back() == ir::Dim(1))) return false;
  dims.pop_back();
  const ValueId data = node.inputs[0], result = node.outputs[0];
  const ValueId indices = emit_reshape(rw, node.inputs[1], dims, i);
  if (!indices.exists()) return false;
  rw.replace(result, rw.emit(ir::Gather{0}, {data, indices}, i));
  return true;
}

/// Replaces elements selected from equal integers, such as token types, by these integers.
bool selected_from_equal(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  if (!std::holds_alternative<ir::GatherElements>(node.op)) return false;
  const ir::ElementType element = rw.type(node.inputs[0]).element;
  const auto known = IndexAnalysis(rw).uniform(node.inputs[0]);
  const auto number = known ? known->constant() : std::nullopt;
  if (!number || *number != static_cast<std::int32_t>(*number) ||
      (element != ir::ElementType::kI32 && element != ir::ElementType::kI64))
    return false;
  const auto rank = static_cast<std::int64_t>(rw.type(node.inputs[1]).rank());
  const ir::ConstantPtr value = ir::make_splat(element, {1}, static_cast<double>(*number));
  const ValueId shape = rw.emit(ir::Shape{0, rank}, {node.inputs[1]}, i);
  rw.replace(node.outputs[0], rw.emit(ir::ConstantOfShape{value}, {shape}, i));
  return true;
}

/// Replaces a ScatterNd or ScatterElements that overwrites a block. With a step of 1, the result is
/// a Concat of the data before the block, the updates, and the data after it; with larger steps, a
/// Gather from data and updates.
bool overwritten_block(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const auto runs = IndexAnalysis(rw).overwritten_block(node);
  if (!runs) return false;
  const ValueId data = node.inputs[0], result = node.outputs[0];
  const std::vector<ir::Dim> dims = rw.type(data).dims;
  std::optional<std::size_t> partial;  // the axis along which only a part is overwritten
  std::vector<ir::Dim> block;
  for (std::size_t a = 0; a < dims.size(); ++a) {
    const IndexRun& run = (*runs)[a];
    block.push_back(run.size);
    if (ir::is_zero(run.begin) && run.step == 1 && run.size == dims[a]) continue;
    if (partial) return false;
    partial = a;
  }
  const auto axis = static_cast<std::int64_t>(partial.value_or(0));
  std::int64_t size = 0, first = 0, count = 0, step = 1;
  if (partial) {
    const IndexRun& run = (*runs)[*partial];
    if (!dims[*partial].is_constant() || !run.begin.is_constant() || !run.size.is_constant())
      return false;
    size = *dims[*partial].constant();
    first = *run.begin.constant();
    count = *run.size.constant();
    step = run.step;
    if (size > kMaxOverwritten || count < 1 || first < 0 || first >= size ||
        (count > 1 && step > (size - 1 - first) / (count - 1)))
      return false;
  }
  const ValueId updates = emit_reshape(rw, node.inputs[2], block, i);
  if (!updates.exists()) return false;
  if (!partial) {
    rw.replace(result, updates);
    return true;
  }
  std::vector<ValueId> parts{updates};
  if (step > 1) {
    std::vector<std::int64_t> from(static_cast<std::size_t>(size));
    std::iota(from.begin(), from.end(), 0);
    for (std::int64_t k = 0; k < count; ++k)
      from[static_cast<std::size_t>(first + k * step)] = size + k;
    const ValueId both = rw.emit(ir::Concat{axis}, {data, updates}, i);
    rw.replace(result, rw.emit(ir::Gather{axis}, {both, emit_integers(rw, std::move(from), i)}, i));
    return true;
  }
  const auto kept = [&](std::int64_t from, std::int64_t to) {
    return rw.emit(ir::Slice{},
                   {data, emit_integers(rw, {from}, i), emit_integers(rw, {to}, i),
                    emit_integers(rw, {axis}, i)},
                   i);
  };
  if (first > 0) parts.insert(parts.begin(), kept(0, first));
  if (first + count < size) parts.push_back(kept(first + count, size));
  rw.replace(result, rw.emit(ir::Concat{axis}, std::move(parts), i));
  return true;
}

}  // namespace

Result<ir::Graph> simplify(ir::Graph graph, const PassContext&) {
  // A rule can enable another one for an earlier node, so the rules are applied until nothing
  // changes.
  constexpr int kMaxRounds = 8;
  for (int round = 0; round < kMaxRounds; ++round) {
    Rewriter rw(std::move(graph));
    for (const NodeIndex i : rw.nodes()) {
      const ValueId kept = passed_through(rw, rw.node(i));
      if (kept.exists()) {
        const ValueId result = rw.node(i).outputs[0];
        if (!rw.needs_identity(result, kept)) rw.replace(result, kept);
        continue;
      }
      merge_views(rw, i) || merge_transposes(rw, i) || view_of_concat(rw, i) ||
          concat_of_split(rw, i) || concat_of_empty(rw, i) || last_row_as_gather(rw, i) ||
          first_row_as_gather(rw, i) || rows_of_elements(rw, i) || gather_of_one_component(rw, i) ||
          overwritten_block(rw, i) || selected_from_equal(rw, i);
    }
    const bool changed = rw.changed();
    LLMC_TRY(graph, std::move(rw).finish());
    if (!changed) break;
  }
  return graph;
}

}  // namespace llmc::passes

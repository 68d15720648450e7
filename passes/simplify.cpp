#include "passes/simplify.h"

#include <algorithm>
#include <numeric>

#include "passes/match.h"

namespace llmc::passes {

namespace {

using ir::BinaryKind;
using ir::ValueId;

bool is_view(const ir::Node& node) {
  return std::holds_alternative<ir::Reshape>(node.op) ||
         std::holds_alternative<ir::Squeeze>(node.op) ||
         std::holds_alternative<ir::Unsqueeze>(node.op);
}

/// Whether slice operand `index` is absent or a constant full of ones.
bool steps_are_one(const Rewriter& rw, const ir::Node& node) {
  if (node.inputs.size() < 5 || !node.inputs[4].exists()) return true;
  const auto steps = integer_constant(rw, node.inputs[4]);
  return steps && std::ranges::all_of(*steps, [](auto s) { return s == 1; });
}

struct SliceRange {
  std::size_t axis = 0;
  std::int64_t begin = 0, end = 0;  // inside the dim when that is a number, else as written
};

/// A slice with constant bounds and step 1 along one axis.
std::optional<SliceRange> single_slice(const Rewriter& rw, const ir::Node& node) {
  const auto starts = integer_constant(rw, node.inputs[1]);
  const auto ends = integer_constant(rw, node.inputs[2]);
  if (!starts || !ends || starts->size() != 1 || ends->size() != 1) return std::nullopt;
  if (!steps_are_one(rw, node)) return std::nullopt;
  std::int64_t axis = 0;
  if (node.inputs.size() > 3 && node.inputs[3].exists()) {
    const auto axes = integer_constant(rw, node.inputs[3]);
    if (!axes || axes->size() != 1) return std::nullopt;
    axis = (*axes)[0];
  }
  const ir::TensorType& type = rw.type(node.inputs[0]);
  const auto front = axis_from_front(axis, type.rank());
  if (!front) return std::nullopt;
  SliceRange range{*front, (*starts)[0], (*ends)[0]};
  if (const auto dim = type.dims[*front].constant()) {
    const auto clamp = [&](std::int64_t v) {
      return std::clamp<std::int64_t>(v < 0 ? v + *dim : v, 0, *dim);
    };
    range.begin = clamp(range.begin);
    range.end = clamp(range.end);
  }
  return range;
}

/// What a node that changes nothing passes through; kNoValue when it does something.
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
  if (std::holds_alternative<ir::Cast>(node.op) || std::holds_alternative<ir::Expand>(node.op) ||
      std::holds_alternative<ir::Tile>(node.op) || std::holds_alternative<ir::Split>(node.op) ||
      is_view(node))
    return same ? x : ir::kNoValue;
  if (std::holds_alternative<ir::Slice>(node.op))
    return same && steps_are_one(rw, node) ? x : ir::kNoValue;
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
  if (!is_view(node)) return false;
  const ir::Node* above = rw.producer(node.inputs[0]);
  if (!above || !is_view(*above)) return false;
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

/// Where the operand of a concat begins and how long it is, when those before it have known sizes.
struct Part {
  ValueId value;
  std::int64_t begin = 0, size = 0;
};
std::vector<Part> known_parts(const Rewriter& rw, const ir::Node& concat, std::size_t axis) {
  std::vector<Part> parts;
  std::int64_t begin = 0;
  for (ValueId operand : concat.inputs) {
    const auto size = rw.type(operand).dims[axis].constant();
    if (!size) break;
    parts.push_back({operand, begin, *size});
    if (__builtin_add_overflow(begin, *size, &begin)) return {};
  }
  return parts;
}

bool split_of_concat(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const auto* split = std::get_if<ir::Split>(&node.op);
  if (!split) return false;
  const auto* concat = rw.op<ir::Concat>(node.inputs[0]);
  if (!concat || concat->axis != split->axis) return false;
  const ir::Node& above = *rw.producer(node.inputs[0]);
  const auto parts = known_parts(rw, above, static_cast<std::size_t>(concat->axis));
  if (parts.size() != split->sizes.size() || above.inputs.size() != parts.size()) return false;
  for (std::size_t p = 0; p < parts.size(); ++p)
    if (parts[p].size != split->sizes[p]) return false;
  for (std::size_t p = 0; p < parts.size(); ++p) rw.replace(node.outputs[p], parts[p].value);
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

bool slice_of_concat(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  if (!std::holds_alternative<ir::Slice>(node.op)) return false;
  const auto* concat = rw.op<ir::Concat>(node.inputs[0]);
  if (!concat) return false;
  const auto range = single_slice(rw, node);
  const auto axis = static_cast<std::size_t>(concat->axis);
  // With a symbolic size the bounds are not clamped, and only positive ones mean what they say.
  if (!range || range->axis != axis || range->begin < 0 || range->end < 0) return false;
  for (const Part& part : known_parts(rw, *rw.producer(node.inputs[0]), axis)) {
    if (part.begin != range->begin || part.begin + part.size != range->end) continue;
    if (part.size == 0) continue;
    rw.replace(node.outputs[0], part.value);
    return true;
  }
  return false;
}

bool gather_of_concat(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const auto* gather = std::get_if<ir::Gather>(&node.op);
  if (!gather) return false;
  const auto* concat = rw.op<ir::Concat>(node.inputs[0]);
  const auto index = integer_constant(rw, node.inputs[1]);
  if (!concat || !index || rw.type(node.inputs[1]).rank() != 0) return false;
  const auto axis = axis_from_front(gather->axis, rw.type(node.inputs[0]).rank());
  if (axis != static_cast<std::size_t>(concat->axis) || index->at(0) < 0) return false;
  for (const Part& part : known_parts(rw, *rw.producer(node.inputs[0]), *axis)) {
    if (part.begin != (*index)[0] || part.size != 1) continue;
    rw.replace(node.outputs[0],
               rw.emit(ir::Squeeze{{static_cast<std::int64_t>(*axis)}}, {part.value}, i));
    return true;
  }
  return false;
}

bool last_row_as_gather(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  if (!std::holds_alternative<ir::Slice>(node.op)) return false;
  const auto range = single_slice(rw, node);
  if (!range || range->begin != -1) return false;
  const ir::TensorType& type = rw.type(node.inputs[0]);
  // With a symbolic size the bounds are as written; the end must lie behind the last element. A
  // size of zero would make the slice empty and the gather fail: a sequence has a token.
  if (type.dims[range->axis].constant() || range->end != INT64_MAX) return false;
  const ValueId index = emit_integers(rw, {-1}, i);
  rw.replace(node.outputs[0], rw.emit(ir::Gather{static_cast<std::int64_t>(range->axis)},
                                      {node.inputs[0], index}, i));
  return true;
}

/// The operand of an Expand or Tile whose only dim of more than one element may be `axis`, for a
/// result of `rank` dims; kNoValue for anything else.
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
  const auto axis = axis_from_front(gather->axis, data.size());
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

}  // namespace

Result<ir::Graph> simplify(ir::Graph graph, const PassContext&) {
  // A rule can make room for another one above it; each round removes nodes, so this ends.
  constexpr int kMaxRounds = 8;
  for (int round = 0; round < kMaxRounds; ++round) {
    Rewriter rw(std::move(graph));
    for (NodeIndex i = 0; i < rw.size(); ++i) {
      if (!rw.alive(i)) continue;
      const ValueId kept = passed_through(rw, rw.node(i));
      if (kept.exists()) {
        const ValueId result = rw.node(i).outputs[0];
        if (!rw.needs_identity(result, kept)) rw.replace(result, kept);
        continue;
      }
      merge_views(rw, i) || merge_transposes(rw, i) || split_of_concat(rw, i) ||
          concat_of_split(rw, i) || slice_of_concat(rw, i) || gather_of_concat(rw, i) ||
          last_row_as_gather(rw, i) || rows_of_elements(rw, i);
    }
    const bool changed = rw.changed();
    LLMC_TRY(graph, std::move(rw).finish());
    if (!changed) break;
  }
  return graph;
}

}  // namespace llmc::passes

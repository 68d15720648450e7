#include "passes/attention_axes.h"

#include <algorithm>
#include <cmath>

namespace llmc::passes {

namespace {

using ir::BinaryKind;
using ir::Dim;

bool is_one(const Dim& dim) {
  return dim.constant() == 1;
}

/// Positions of the dims that are not 1.
std::vector<std::size_t> wide_axes(const std::vector<Dim>& dims) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (!is_one(dims[i])) found.push_back(i);
  return found;
}

bool trace_reshape(const Rewriter& rw, const ir::Node& node, Traced& traced) {
  const std::vector<Dim>& from = rw.type(node.inputs[0]).dims;
  const std::vector<Dim>& to = rw.type(traced.value).dims;
  const std::vector<std::size_t> in = wide_axes(from), out = wide_axes(to);
  std::vector<Axis> axes(from.size(), Axis::kUnit);
  std::size_t o = 0;
  for (std::size_t i = 0; i < in.size(); ++i, ++o) {
    if (o >= out.size()) return false;
    const Axis axis = traced.axes[out[o]];
    if (from[in[i]] == to[out[o]]) {
      axes[in[i]] = axis;
      continue;
    }
    // Heads that become kv heads and their groups.
    if (axis == Axis::kHeads && o + 1 < out.size() && traced.axes[out[o + 1]] == Axis::kGroup) {
      const auto split = ir::mul(to[out[o]], to[out[o + 1]]);
      if (!split || *split != from[in[i]]) return false;
      axes[in[i]] = Axis::kHeads;
      ++o;
      continue;
    }
    // Heads made of kv heads and repeats, the repeats inside.
    if (axis != Axis::kHeads || i + 1 >= in.size()) return false;
    const auto product = ir::mul(from[in[i]], from[in[i + 1]]);
    if (!product || *product != to[out[o]]) return false;
    axes[in[i]] = Axis::kHeads;
    axes[in[++i]] = Axis::kGroup;
  }
  if (o != out.size()) return false;
  traced.axes = std::move(axes);
  return true;
}

bool trace_expand(const Rewriter& rw, const ir::Node& node, Traced& traced) {
  const std::vector<Dim>& from = rw.type(node.inputs[0]).dims;
  const std::vector<Dim>& to = rw.type(traced.value).dims;
  if (from.size() != to.size() || traced.repeats != 1) return false;
  std::int64_t repeats = 1;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] == to[i]) continue;
    const auto count = to[i].constant();
    if (!is_one(from[i]) || !count || repeats != 1) return false;
    // A group inside the kv heads, or the only kv head itself.
    if (traced.axes[i] != Axis::kGroup && traced.axes[i] != Axis::kHeads) return false;
    traced.axes[i] = Axis::kUnit;
    repeats = *count;
  }
  traced.repeats = repeats;
  return true;
}

/// Heads picked in runs, each as often as the others: 0 0 1 1 …
bool trace_gather(const Rewriter& rw, const ir::Node& node, Traced& traced) {
  const auto& gather = std::get<ir::Gather>(node.op);
  const auto& from = rw.type(node.inputs[0]).dims;
  const auto axis = axis_from_front(gather.axis, from.size());
  const auto indices = rw.constant(node.inputs[1]);
  const auto count = axis ? from[*axis].constant() : std::nullopt;
  if (!indices || indices->dims().size() != 1 || !count || *count < 1 || traced.repeats != 1 ||
      traced.axes[*axis] != Axis::kHeads || indices->element_count() > 1 << 16 ||
      indices->element_count() % *count != 0)
    return false;
  const std::int64_t repeats = indices->element_count() / *count;
  const auto picks = ir::to_integers(*indices);
  for (std::size_t i = 0; i < picks->size(); ++i)
    if ((*picks)[i] != static_cast<std::int64_t>(i) / repeats) return false;
  traced.repeats = repeats;
  return true;
}

}  // namespace

bool trace_up(const Rewriter& rw, Traced& traced) {
  const ir::Node* node = rw.producer(traced.value);
  if (!node) return false;
  if (const auto* transpose = std::get_if<ir::Transpose>(&node->op)) {
    std::vector<Axis> axes(traced.axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i)
      axes[static_cast<std::size_t>(transpose->perm[i])] = traced.axes[i];
    traced.axes = std::move(axes);
  } else if (std::holds_alternative<ir::Reshape>(node->op) ||
             std::holds_alternative<ir::Squeeze>(node->op) ||
             std::holds_alternative<ir::Unsqueeze>(node->op)) {
    if (!trace_reshape(rw, *node, traced)) return false;
  } else if (std::holds_alternative<ir::Expand>(node->op)) {
    if (!trace_expand(rw, *node, traced)) return false;
  } else if (std::holds_alternative<ir::Tile>(node->op)) {
    if (!trace_expand(rw, *node, traced)) return false;
  } else if (std::holds_alternative<ir::Gather>(node->op)) {
    if (!trace_gather(rw, *node, traced)) return false;
  } else if (const auto factor = with_scalar(rw, traced.value, BinaryKind::kMul)) {
    if (!std::isfinite(factor->scalar)) return false;
    traced.scale *= factor->scalar;
    traced.value = factor->value;
    return true;
  } else if (const auto divisor = with_scalar(rw, traced.value, BinaryKind::kDiv)) {
    if (!std::isfinite(divisor->scalar) || divisor->scalar == 0) return false;
    traced.scale /= divisor->scalar;
    traced.value = divisor->value;
    return true;
  } else {
    return false;
  }
  traced.value = node->inputs[0];
  return true;
}

std::vector<Axis> label(const std::vector<Dim>& dims, std::vector<Axis> axes) {
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (is_one(dims[i])) axes[i] = Axis::kUnit;
  return axes;
}

std::optional<std::vector<Axis>> four_axes(const Rewriter& rw, const Traced& traced) {
  if (traced.axes.size() != 4 || !is_one(rw.type(traced.value).dims[0])) return std::nullopt;
  std::vector<Axis> axes = traced.axes;
  for (Axis wanted : {Axis::kHeads, Axis::kTokens}) {
    if (std::ranges::find(axes, wanted) != axes.end()) continue;
    const auto unit = std::find(axes.begin() + 1, axes.end(), Axis::kUnit);
    if (unit == axes.end()) return std::nullopt;
    *unit = wanted;
  }
  if (axes != kSequenceFirstAxes && axes != kHeadsFirstAxes) return std::nullopt;
  return axes;
}

}  // namespace llmc::passes

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

/// Moves `traced` to the operand of a view. Returns false unless each axis of the operand is one
/// axis of the result, or the view splits heads into kv heads and groups, merges kv heads and
/// groups into heads, or repeats heads.
bool trace_view(const Rewriter& rw, const ir::Node& node, Traced& traced) {
  const auto maps = index_maps(rw, node, rw.slot(traced.value));
  if (maps.size() != 1) return false;
  const std::vector<Dim>& from = rw.type(node.inputs[0]).dims;
  const std::vector<Dim>& to = rw.type(traced.value).dims;
  std::vector<Axis> axes(from.size(), Axis::kUnit);
  std::vector<bool> is_read(to.size());
  std::int64_t repeats = traced.repeats;
  const auto repeat = [&](const Dim& count) {
    if (repeats != 1 || !count.is_constant()) return false;
    repeats = *count.constant();
    return true;
  };
  for (std::size_t a = 0; a < from.size(); ++a) {
    const ir::AxisIndex& index = maps[0].axes[a];
    if (is_one(from[a])) continue;
    if (!index.table.empty() || index.start != Dim(0) || index.terms.empty()) return false;
    const auto& terms = index.terms;
    const std::size_t k = terms[0].axis;
    axes[a] = traced.axes[k];
    is_read[k] = true;
    if (index.result_axis()) {
      if (from[a] != to[k]) return false;
      continue;
    }
    if (axes[a] != Axis::kHeads || terms[0].modulus) return false;
    if (terms.size() == 2) {
      // Heads split into kv heads and groups.
      const std::size_t group = terms[1].axis;
      is_read[group] = true;
      if (traced.axes[group] != Axis::kGroup || !terms[0].is_linear() || !terms[1].is_linear() ||
          terms[1].step != Dim(1) || terms[0].step != to[group] ||
          ir::mul(to[k], to[group]) != from[a])
        return false;
      continue;
    }
    const Dim& count = terms[0].divisor;
    if (terms.size() != 1 || terms[0].step != Dim(1) || ir::mul(from[a], count) != to[k])
      return false;
    // Heads merged from kv heads and groups, or heads repeated by a Gather.
    std::size_t inner = a + 1;
    while (inner < from.size() && is_one(from[inner])) ++inner;
    const auto* digit = inner < from.size() && maps[0].axes[inner].terms.size() == 1
                            ? &maps[0].axes[inner].terms[0]
                            : nullptr;
    if (digit && digit->axis == k) {
      if (digit->modulus != count || from[inner] != count) return false;
      axes[inner] = Axis::kGroup;
      a = inner;
    } else if (!repeat(count)) {
      return false;
    }
  }
  for (std::size_t k = 0; k < to.size(); ++k) {
    if (is_read[k] || is_one(to[k])) continue;
    // Only the group axis, or a single kv head, may be repeated.
    if (traced.axes[k] != Axis::kGroup && traced.axes[k] != Axis::kHeads) return false;
    if (!repeat(to[k])) return false;
  }
  traced.axes = std::move(axes);
  traced.repeats = repeats;
  traced.value = node.inputs[0];
  return true;
}

}  // namespace

bool trace_up(const Rewriter& rw, Traced& traced) {
  const ir::Node* node = rw.producer(traced.value);
  if (!node) return false;
  if (ir::is_view(node->op)) return trace_view(rw, *node, traced);
  if (const auto factor = with_scalar(rw, traced.value, BinaryKind::kMul)) {
    if (!std::isfinite(factor->scalar)) return false;
    traced.scale *= factor->scalar;
    traced.value = factor->value;
    return true;
  }
  if (const auto divisor = with_scalar(rw, traced.value, BinaryKind::kDiv)) {
    if (!std::isfinite(divisor->scalar) || divisor->scalar == 0) return false;
    traced.scale /= divisor->scalar;
    traced.value = divisor->value;
    return true;
  }
  return false;
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

std::optional<Half> match_half(const Rewriter& rw, ir::ValueId value,
                               const std::vector<Dim>& dims) {
  const ir::ValueId cut = rw.op<ir::Gather>(value) ? value : strip_views(rw, value);
  const ir::Node* node = rw.producer(cut);
  const auto maps = node ? index_maps(rw, *node, rw.slot(cut)) : std::vector<ir::IndexMap>{};
  if (maps.size() != 1) return std::nullopt;
  const std::vector<Dim>& whole = rw.type(node->inputs[0]).dims;
  if (whole.empty() || whole[0] != Dim(2) ||
      !std::equal(whole.begin() + 1, whole.end(), dims.begin(), dims.end()))
    return std::nullopt;
  const auto half = maps[0].axes[0].fixed(rw.type(cut).dims);
  for (std::size_t a = 1; a < whole.size(); ++a)
    if (!maps[0].axes[a].result_axis()) return std::nullopt;
  return half ? std::optional(Half{node->inputs[0], *half->constant()}) : std::nullopt;
}

std::vector<Axis> operand_axes(std::size_t rank, Axis x, Axis y) {
  std::vector<Axis> axes(rank, Axis::kUnit);
  if (rank >= 3) axes[rank - 3] = Axis::kHeads;
  if (rank == 5) {
    axes[1] = Axis::kHeads;
    axes[2] = Axis::kGroup;
  }
  if (rank >= 2) {
    axes[rank - 2] = x;
    axes[rank - 1] = y;
  }
  return axes;
}

std::optional<Queries> trace_queries(const Rewriter& rw, ir::ValueId value) {
  const ir::TensorType& type = rw.type(value);
  Traced traced{value, label(type.dims, operand_axes(type.rank(), Axis::kTokens, Axis::kDim)), 1,
                1};
  std::optional<Queries> found;
  do {
    const auto order = four_axes(rw, traced);
    if (!order || traced.repeats != 1) continue;
    found = Queries{traced.value, *order == kHeadsFirstAxes, traced.scale};
  } while (trace_up(rw, traced));
  return found;
}

}  // namespace llmc::passes

#include <algorithm>
#include <numeric>

#include "passes/rope_lanes.h"

/// move_lanes: element permutations along the head dim.
namespace llmc::passes {

namespace {

using ir::Dim;
using ir::ValueId;

constexpr std::int64_t kMaxElements = 1 << 14;

std::int64_t product_of(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (std::int64_t d : shape) n *= d;
  return n;
}

std::vector<Dim> without_ones(const std::vector<Dim>& dims) {
  std::vector<Dim> kept;
  for (const Dim& d : dims)
    if (d.constant() != 1) kept.push_back(d);
  return kept;
}

/// `lanes` with shape[axis] replaced by the elements at `picks` along it.
Lanes pick(const Lanes& lanes, std::size_t axis, const std::vector<std::int64_t>& picks,
           bool drop_axis = false) {
  std::int64_t inner = 1, outer = 1;
  for (std::size_t a = 0; a < lanes.shape.size(); ++a) {
    if (a < axis) outer *= lanes.shape[a];
    if (a > axis) inner *= lanes.shape[a];
  }
  Lanes result;
  result.shape = lanes.shape;
  result.shape[axis] = static_cast<std::int64_t>(picks.size());
  if (drop_axis) result.shape.erase(result.shape.begin() + static_cast<std::ptrdiff_t>(axis));
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t p : picks)
      for (std::int64_t i = 0; i < inner; ++i)
        result.elements.push_back(
            lanes.elements[static_cast<std::size_t>((o * lanes.shape[axis] + p) * inner + i)]);
  return result;
}

/// The axis of `lanes.shape` that axis `axis` of a value of `rank` is; nullopt for leading ones.
std::optional<std::size_t> lane_axis(const Lanes& lanes, std::int64_t axis, std::size_t rank) {
  const auto front = axis_from_front(axis, rank);
  const std::size_t lead = rank - lanes.shape.size();
  if (!front || *front < lead) return std::nullopt;
  return *front - lead;
}

std::optional<Lanes> reshape(const Rewriter& rw, const ir::Node& node, const Lanes& in,
                             bool fixed_lead) {
  const std::vector<Dim>& from = rw.type(node.inputs[0]).dims;
  const std::vector<Dim>& to = rw.type(node.outputs[0]).dims;
  const std::vector<Dim> lead(from.begin(),
                              from.end() - static_cast<std::ptrdiff_t>(in.shape.size()));
  const std::int64_t wanted = product_of(in.shape);
  // The shortest run of last dims that holds all elements; dims of 1 before it count as leading.
  Lanes result;
  std::int64_t n = 1;
  for (std::size_t t = 1; t <= to.size(); ++t) {
    const auto dim = to[to.size() - t].constant();
    if (!dim || *dim <= 0 || *dim > wanted) return std::nullopt;
    n *= *dim;
    result.shape.insert(result.shape.begin(), *dim);
    const std::vector<Dim> new_lead(to.begin(), to.end() - static_cast<std::ptrdiff_t>(t));
    if (n > wanted) return std::nullopt;
    if (n < wanted) continue;
    if (fixed_lead ? new_lead != lead : without_ones(new_lead) != without_ones(lead)) continue;
    result.elements = in.elements;
    return result;
  }
  return std::nullopt;
}

std::optional<Lanes> slice(const Rewriter& rw, const ir::Node& node, const Lanes& in) {
  const std::size_t rank = rw.type(node.inputs[0]).rank();
  const auto starts = integer_constant(rw, node.inputs[1]);
  const auto ends = integer_constant(rw, node.inputs[2]);
  if (!starts || !ends || starts->size() != ends->size()) return std::nullopt;
  std::vector<std::int64_t> axes(starts->size()), steps(starts->size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  for (auto [operand, list] : {std::pair(3u, &axes), std::pair(4u, &steps)}) {
    if (node.inputs.size() <= operand || !node.inputs[operand].exists()) continue;
    const auto given = integer_constant(rw, node.inputs[operand]);
    if (!given || given->size() != starts->size()) return std::nullopt;
    *list = *given;
  }
  Lanes result = in;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = lane_axis(in, axes[i], rank);
    if (!axis || steps[i] < 1) return std::nullopt;
    const std::int64_t size = result.shape[*axis];
    const auto clamp = [&](std::int64_t v) {
      return std::clamp<std::int64_t>(v < 0 ? v + size : v, 0, size);
    };
    std::vector<std::int64_t> picks;
    for (std::int64_t p = clamp((*starts)[i]); p < clamp((*ends)[i]);) {
      picks.push_back(p);
      if (steps[i] >= size) break;
      p += steps[i];
    }
    if (picks.empty()) return std::nullopt;
    result = pick(result, *axis, picks);
  }
  return result;
}

std::optional<Lanes> gather(const Rewriter& rw, const ir::Node& node, const Lanes& in) {
  const auto axis =
      lane_axis(in, std::get<ir::Gather>(node.op).axis, rw.type(node.inputs[0]).rank());
  auto indices = integer_constant(rw, node.inputs[1]);
  const std::size_t rank = rw.type(node.inputs[1]).rank();
  if (!axis || !indices || indices->empty() || rank > 1) return std::nullopt;
  for (std::int64_t& index : *indices) {
    if (index < 0) index += in.shape[*axis];
    if (index < 0 || index >= in.shape[*axis]) return std::nullopt;
  }
  if (rank == 0 && in.shape.size() == 1) return std::nullopt;
  return pick(in, *axis, *indices, rank == 0);
}

std::optional<Lanes> concat(const Rewriter& rw, const ir::Node& node,
                            const std::vector<const Lanes*>& in) {
  const std::size_t rank = rw.type(node.outputs[0]).rank();
  const auto axis = lane_axis(*in[0], std::get<ir::Concat>(node.op).axis, rank);
  if (!axis) return std::nullopt;
  Lanes result;
  result.shape = in[0]->shape;
  result.shape[*axis] = 0;
  for (const Lanes* part : in) {
    if (part->shape.size() != result.shape.size()) return std::nullopt;
    for (std::size_t a = 0; a < result.shape.size(); ++a)
      if (a != *axis && part->shape[a] != result.shape[a]) return std::nullopt;
    result.shape[*axis] += part->shape[*axis];
  }
  if (product_of(result.shape) > kMaxElements) return std::nullopt;
  std::int64_t outer = 1;
  for (std::size_t a = 0; a < *axis; ++a) outer *= result.shape[a];
  for (std::int64_t o = 0; o < outer; ++o)
    for (const Lanes* part : in) {
      const std::int64_t run = product_of(part->shape) / outer;
      const auto begin = part->elements.begin() + o * run;
      result.elements.insert(result.elements.end(), begin, begin + run);
    }
  return result;
}

std::optional<Lanes> expand(const Rewriter& rw, const ir::Node& node, const Lanes& in) {
  const std::vector<Dim>& from = rw.type(node.inputs[0]).dims;
  const std::vector<Dim>& to = rw.type(node.outputs[0]).dims;
  const std::size_t lead = from.size() - in.shape.size();
  if (to.size() != from.size() || !std::equal(from.begin(), from.begin() + lead, to.begin()))
    return std::nullopt;
  Lanes result = in;
  for (std::size_t a = 0; a < in.shape.size(); ++a) {
    const auto dim = to[lead + a].constant();
    if (!dim || *dim <= 0 || *dim > kMaxElements) return std::nullopt;
    if (*dim == result.shape[a]) continue;
    if (result.shape[a] != 1 || product_of(result.shape) * *dim > kMaxElements) return std::nullopt;
    result = pick(result, a, std::vector<std::int64_t>(static_cast<std::size_t>(*dim), 0));
  }
  return result;
}

}  // namespace

std::optional<Lanes> move_lanes(const Rewriter& rw, const ir::Node& node, std::size_t slot,
                                const std::vector<const Lanes*>& in, bool fixed_lead) {
  if (std::holds_alternative<ir::Concat>(node.op)) return concat(rw, node, in);
  const Lanes& x = *in[0];
  if (std::holds_alternative<ir::Reshape>(node.op) ||
      std::holds_alternative<ir::Squeeze>(node.op) ||
      std::holds_alternative<ir::Unsqueeze>(node.op))
    return reshape(rw, node, x, fixed_lead);
  if (std::holds_alternative<ir::Slice>(node.op)) return slice(rw, node, x);
  if (std::holds_alternative<ir::Gather>(node.op)) return gather(rw, node, x);
  if (std::holds_alternative<ir::Expand>(node.op)) return expand(rw, node, x);
  const std::size_t rank = rw.type(node.inputs[0]).rank();
  if (const auto* split = std::get_if<ir::Split>(&node.op)) {
    const auto axis = lane_axis(x, split->axis, rank);
    if (!axis) return std::nullopt;
    const std::int64_t begin =
        std::accumulate(split->sizes.begin(),
                        split->sizes.begin() + static_cast<std::ptrdiff_t>(slot), std::int64_t{0});
    std::vector<std::int64_t> picks(static_cast<std::size_t>(split->sizes[slot]));
    std::iota(picks.begin(), picks.end(), begin);
    if (picks.empty()) return std::nullopt;
    return pick(x, *axis, picks);
  }
  if (const auto* transpose = std::get_if<ir::Transpose>(&node.op)) {
    // At most one leading dim of factors is not 1, so their order there says nothing.
    if (fixed_lead) return std::nullopt;
    for (std::size_t a = rank - x.shape.size(); a < rank; ++a)
      if (transpose->perm[a] != static_cast<std::int64_t>(a)) return std::nullopt;
    return x;
  }
  return std::nullopt;
}

}  // namespace llmc::passes

#include <algorithm>

#include "passes/head_elements.h"

namespace llmc::passes {

namespace {

using ir::Dim;

constexpr std::int64_t kMaxElements = 1 << 14;

/// Returns whether the leading axes of an operand are the leading axes of the result. With `fixed`,
/// they must be the same; otherwise they may be permuted, and dims of 1 added or removed.
bool keeps_leading_axes(const ir::IndexMap& map, const std::vector<Dim>& from,
                        const std::vector<Dim>& to, std::size_t from_lead, std::size_t to_lead,
                        bool fixed) {
  if (fixed && from_lead != to_lead) return false;
  std::size_t wide = 0;
  for (std::size_t a = 0; a < from_lead; ++a) {
    if (fixed && from[a] != to[a]) return false;
    if (from[a] == Dim(1)) continue;
    const auto axis = map.axes[a].result_axis();
    if (!axis || to[*axis] != from[a] || (fixed && *axis != a)) return false;
    ++wide;
  }
  return wide ==
         to_lead - static_cast<std::size_t>(std::count(to.begin(), to.begin() + to_lead, Dim(1)));
}

}  // namespace

std::optional<HeadElements> view_elements(const Rewriter& rw, const ir::Node& node,
                                          std::size_t slot,
                                          const std::vector<const HeadElements*>& in,
                                          bool fixed_lead) {
  const auto maps = index_maps(rw, node, slot);
  if (maps.empty() || maps.size() != in.size()) return std::nullopt;
  const std::vector<Dim>& to = rw.type(node.outputs[slot]).dims;
  // Find the smallest number of last axes of the result that contain all elements.
  HeadElements result;
  std::int64_t count = 1;
  for (std::size_t lead = to.size(); lead-- > 0;) {
    const auto dim = to[lead].constant();
    if (!dim || *dim <= 0 || *dim > kMaxElements / count) return std::nullopt;
    count *= *dim;
    result.shape.insert(result.shape.begin(), *dim);
    std::vector<ir::IndexMap> inner;
    std::vector<std::vector<std::int64_t>> shapes;
    for (const ir::IndexMap& map : maps) {
      const std::vector<Dim>& from = rw.type(node.inputs[map.operand]).dims;
      const std::size_t from_lead = from.size() - in[map.operand]->shape.size();
      auto last = ir::inner_axes(map, from_lead, lead);
      if (!last || !keeps_leading_axes(map, from, to, from_lead, lead, fixed_lead)) break;
      inner.push_back(std::move(*last));
      shapes.push_back(in[map.operand]->shape);
    }
    if (inner.size() != maps.size()) continue;
    const auto sources = ir::element_sources(inner, shapes, result.shape);
    if (!sources) return std::nullopt;
    for (const ir::ElementSource& source : *sources)
      result.elements.push_back(
          in[source.operand]->elements[static_cast<std::size_t>(source.element)]);
    return result;
  }
  return std::nullopt;
}

}  // namespace llmc::passes

#include "passes/split_loop.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "compiler/support/check.h"

namespace llmc::passes {
namespace {

using ir::ValueId;

/// Returns `count` elements of each row from index `first` on. Empty rows stay empty.
template <class T>
std::vector<std::vector<T>> columns(const std::vector<std::vector<T>>& rows, std::size_t first,
                                    std::size_t count) {
  std::vector<std::vector<T>> parts;
  for (const std::vector<T>& row : rows) {
    std::vector<T>& part = parts.emplace_back();
    if (row.empty()) continue;  // names may be missing
    const auto begin = row.begin() + static_cast<std::ptrdiff_t>(first);
    part.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  }
  return parts;
}

void append(std::vector<ValueId>& to, const std::vector<ValueId>& from, std::size_t first,
            std::size_t count) {
  const auto begin = from.begin() + static_cast<std::ptrdiff_t>(first);
  to.insert(to.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
}

}  // namespace

ir::Graph split_loop(ir::Graph graph, std::size_t node, std::span<const std::int64_t> counts) {
  const ir::Node whole = graph.nodes().at(node);
  const auto& loop = std::get<ir::Loop>(whole.op);
  LLMC_CHECK(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == loop.count &&
             std::ranges::all_of(counts, [](std::int64_t count) { return count > 0; }));
  const auto carried = static_cast<std::size_t>(loop.carried);
  const auto slots = static_cast<std::size_t>(loop.per_iteration_inputs);
  const auto results = static_cast<std::size_t>(loop.per_iteration_outputs);
  const std::size_t invariants = carried + static_cast<std::size_t>(loop.count) * slots;
  std::vector<ir::Node> parts;
  std::vector<ValueId> state;
  append(state, whole.inputs, 0, carried);
  std::size_t first = 0;
  for (const std::int64_t& given : counts) {
    const auto count = static_cast<std::size_t>(given);
    ir::Loop part = loop;
    part.count = given;
    part.parameters = columns(loop.parameters, first, count);
    part.parameter_names = columns(loop.parameter_names, first, count);
    ir::Node made{std::move(part), state, {}, whole.origin};
    append(made.inputs, whole.inputs, carried + first * slots, count * slots);
    append(made.inputs, whole.inputs, invariants, whole.inputs.size() - invariants);
    const bool last = &given == &counts.back();
    for (std::size_t i = 0; i < carried; ++i) {
      const ValueId output = whole.outputs[i];
      made.outputs.push_back(last ? output : graph.add_value({{}, graph.value(output).type}));
    }
    state = made.outputs;
    append(made.outputs, whole.outputs, carried + first * results, count * results);
    parts.push_back(std::move(made));
    first += count;
  }
  std::vector<ir::Node>& nodes = graph.mutable_nodes();
  const auto place = nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(node));
  nodes.insert(place, std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
  return graph;
}

}  // namespace llmc::passes

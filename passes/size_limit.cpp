#include "passes/size_limit.h"

#include <algorithm>

#include "passes/index_analysis.h"

namespace llmc::passes {

namespace {

/// Returns c if the elements of `index` are c, c + 1, … along `dim` and equal along all other axes.
std::optional<std::int64_t> first_position(const ir::AffineIndex& index,
                                           const std::vector<ir::Dim>& dims, const ir::Dim& dim) {
  bool found = false;
  for (std::size_t a = 0; a < dims.size(); ++a) {
    if (dims[a] == ir::Dim(1)) continue;
    if (found || !(dims[a] == dim) || !(index.steps[a] == ir::Dim(1))) return std::nullopt;
    found = true;
  }
  return found ? index.start.constant() : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> size_limit(const ir::Graph& graph, const ir::Dim& dim) {
  const Rewriter rw{ir::Graph(graph)};
  IndexAnalysis indices(rw);
  std::optional<std::int64_t> limit;
  for (NodeIndex i = 0; i < rw.size(); ++i) {
    const auto* gather = std::get_if<ir::Gather>(&rw.node(i).op);
    if (!gather || gather->axis != 0) continue;
    const ir::Node& node = rw.node(i);
    const ir::ConstantPtr table = matrix_constant(rw, node.inputs[0]);
    const auto* index = table ? indices.find(node.inputs[1]) : nullptr;
    if (!index) continue;
    const auto first = first_position(*index, rw.type(node.inputs[1]).dims, dim);
    if (!first || *first < 0) continue;
    const std::int64_t rows = std::max<std::int64_t>(table->dims()[0] - *first, 0);
    limit = limit ? std::min(*limit, rows) : rows;
  }
  return limit;
}

}  // namespace llmc::passes

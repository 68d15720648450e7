#include "passes/size_limit.h"

#include <algorithm>
#include <set>

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

/// Returns the number of rows from the first one that `node`, a Gather, looks up along `dim` to the
/// end of the constant table; nullopt for other lookups.
std::optional<std::int64_t> rows_of_lookup(const Rewriter& rw, IndexAnalysis& indices,
                                           const ir::Node& node, const ir::Dim& dim) {
  if (std::get<ir::Gather>(node.op).axis != 0) return std::nullopt;
  const ir::ConstantPtr table = matrix_constant(rw, node.inputs[0]);
  const auto* index = table ? indices.find(node.inputs[1]) : nullptr;
  if (!index) return std::nullopt;
  const auto first = first_position(*index, rw.type(node.inputs[1]).dims, dim);
  return first && *first >= 0 ? std::optional(table->dims()[0] - *first) : std::nullopt;
}

/// Returns the number of elements from the first one that `node`, a Slice, reads along `dim` to the
/// end of the constant; nullopt for other slices.
std::optional<std::int64_t> rows_of_slice(const Rewriter& rw, const ir::Node& node,
                                          const ir::Dim& dim) {
  const ir::ConstantPtr table = rw.constant(node.inputs[0]);
  const auto maps = table ? index_maps(rw, node, 0) : std::vector<ir::IndexMap>();
  if (maps.size() != 1) return std::nullopt;
  const std::vector<ir::Dim>& dims = rw.type(node.outputs[0]).dims;
  std::optional<std::int64_t> rows;
  for (std::size_t a = 0; a < dims.size(); ++a) {
    const ir::AxisIndex& index = maps[0].axes[a];
    const auto first = index.start.constant();
    const bool consecutive =
        index.terms.size() == 1 && index.terms[0].is_linear() && index.terms[0].step == ir::Dim(1);
    if (!(dims[a] == dim) || !first || !consecutive) continue;
    rows = std::min(rows.value_or(INT64_MAX), table->dims()[a] - *first);
  }
  return rows;
}

}  // namespace

std::optional<std::int64_t> size_limit(const ir::Graph& graph, const ir::Dim& dim) {
  const Rewriter rw{ir::Graph(graph)};
  IndexAnalysis indices(rw);
  std::optional<std::int64_t> limit;
  for (const NodeIndex i : rw.nodes<ir::Gather, ir::Slice>()) {
    const ir::Node& node = rw.node(i);
    const auto rows = std::holds_alternative<ir::Gather>(node.op)
                          ? rows_of_lookup(rw, indices, node, dim)
                          : rows_of_slice(rw, node, dim);
    if (rows) limit = std::max<std::int64_t>(std::min(limit.value_or(*rows), *rows), 0);
  }
  return limit;
}

std::optional<std::int64_t> vocabulary_limit(const ir::Graph& graph, ir::ValueId ids) {
  const Rewriter rw{ir::Graph(graph)};
  std::set<ir::ValueId> copies{ids};  // values whose elements are ids
  std::optional<std::int64_t> limit;
  for (const NodeIndex i : rw.nodes()) {
    const ir::Node& node = rw.node(i);
    if (std::holds_alternative<ir::Gather>(node.op)) {
      const ir::ConstantPtr table =
          copies.contains(node.inputs[1]) ? matrix_constant(rw, node.inputs[0]) : nullptr;
      if (table && std::get<ir::Gather>(node.op).axis == 0)
        limit = std::min(limit.value_or(table->dims()[0]), table->dims()[0]);
    }
    const bool copy = ir::is_view(node.op) || std::holds_alternative<ir::Cast>(node.op);
    if (copy && copies.contains(node.inputs[0]))
      copies.insert(node.outputs.begin(), node.outputs.end());
  }
  return limit;
}

}  // namespace llmc::passes

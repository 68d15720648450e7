#include "compiler/calibrate/all_logits.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ir/index_map.h"

namespace llmc::calibrate {
namespace {

bool has_tokens(const ir::TensorType& type) {
  return std::ranges::any_of(type.dims, [](const ir::Dim& dim) {
    return !dim.is_constant() && dim == ir::Dim::symbol("seq");
  });
}

/// Returns whether the node selects the row of one token.
bool selects_row(const ir::Graph& graph, const ir::Node& node) {
  if (!std::holds_alternative<ir::Gather>(node.op) && !std::holds_alternative<ir::Slice>(node.op))
    return false;
  const ir::TensorType& from = graph.value(node.inputs[0]).type;
  return ir::is_float(from.element) && has_tokens(from) &&
         !has_tokens(graph.value(node.outputs[0]).type);
}

}  // namespace

ir::Graph with_all_logits(ir::Graph stages) {
  std::map<ir::ValueId, ir::ValueId> same;  // replacement of a value
  std::set<ir::ValueId> rows;               // values computed from the selected row
  for (ir::Node& node : stages.mutable_nodes()) {
    bool of_row = false;
    for (ir::ValueId& input : node.inputs) {
      of_row = of_row || rows.contains(input);
      if (const auto found = same.find(input); found != same.end()) input = found->second;
    }
    const bool selects = selects_row(stages, node);
    if (!selects && !of_row) continue;
    rows.insert(node.outputs.begin(), node.outputs.end());
    if (selects || ir::is_reshape(node.op)) same[node.outputs[0]] = node.inputs[0];
  }
  for (ir::ValueId& output : stages.mutable_outputs())
    if (const auto found = same.find(output); found != same.end()) output = found->second;
  return stages;
}

}  // namespace llmc::calibrate

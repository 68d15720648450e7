#include <unordered_map>

#include "passes/op_key.h"
#include "passes/rewrite.h"
#include "passes/transforms.h"

namespace llmc::passes {

Result<ir::Graph> eliminate_common(ir::Graph graph, const PassContext&) {
  Rewriter rw(std::move(graph));
  std::unordered_map<std::string, Rewriter::NodeIndex> seen;
  for (const Rewriter::NodeIndex i : rw.nodes()) {
    const ir::Node& node = rw.node(i);
    auto key = op_key(node.op);
    if (!key) continue;
    *key += '|';
    for (ir::ValueId input : node.inputs) *key += std::to_string(input.index) + ',';
    const auto [first, fresh] = seen.emplace(std::move(*key), i);
    if (fresh) continue;
    const std::vector<ir::ValueId> kept = rw.node(first->second).outputs;
    const std::vector<ir::ValueId> gone = node.outputs;
    for (std::size_t s = 0; s < gone.size(); ++s)
      // Each graph output keeps its node, because an Identity would cost as much as the node saves.
      if (!rw.needs_identity(gone[s], kept[s])) rw.replace(gone[s], kept[s]);
  }
  return std::move(rw).finish();
}

Result<ir::Graph> eliminate_dead(ir::Graph graph, const PassContext&) {
  return prune(graph);
}

}  // namespace llmc::passes

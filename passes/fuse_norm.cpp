#include "passes/fuse_norm.h"

#include <algorithm>

#include "passes/match.h"

namespace llmc::passes {

namespace {

/// Whether the node can normalise its source itself, and reads `value` as that source only.
bool takes_norm(const ir::Node& node, ir::ValueId value) {
  const auto* linear = std::get_if<ir::Linear>(&node.op);
  const auto* qkv = std::get_if<ir::QkvProjection>(&node.op);
  if (!(linear && !linear->norm_epsilon) && !(qkv && !qkv->norm_epsilon)) return false;
  return node.inputs[0] == value && std::ranges::count(node.inputs, value) == 1;
}

}  // namespace

Result<ir::Graph> fuse_norm(ir::Graph graph, const PassContext&) {
  Rewriter rw(std::move(graph));
  for (NodeIndex i = 0; i < rw.size(); ++i) {
    const auto* norm = std::get_if<ir::RmsNorm>(&rw.node(i).op);
    if (!rw.alive(i) || !norm) continue;
    const ir::ValueId normalised = rw.node(i).outputs[0];
    const ir::ValueId x = rw.node(i).inputs[0], weight = rw.node(i).inputs[1];
    const std::vector<NodeIndex> users = rw.users(normalised);
    const bool all = std::ranges::all_of(
        users, [&](NodeIndex user) { return takes_norm(rw.node(user), normalised); });
    if (!all || users.empty() || rw.is_output(normalised) || !rw.constant(weight)) continue;
    for (NodeIndex user : users) {
      ir::Op op = rw.node(user).op;
      std::vector<ir::ValueId> inputs = rw.node(user).inputs;
      inputs.resize(std::max<std::size_t>(4, inputs.size()), ir::kNoValue);
      inputs[0] = x;
      inputs[3] = weight;
      if (auto* linear = std::get_if<ir::Linear>(&op)) linear->norm_epsilon = norm->epsilon;
      if (auto* qkv = std::get_if<ir::QkvProjection>(&op)) qkv->norm_epsilon = norm->epsilon;
      const std::vector<ir::ValueId> old = rw.node(user).outputs;
      const auto outputs = rw.emit_all(std::move(op), std::move(inputs), user);
      for (std::size_t s = 0; s < old.size(); ++s) rw.replace(old[s], outputs[s]);
    }
  }
  return std::move(rw).finish();
}

}  // namespace llmc::passes

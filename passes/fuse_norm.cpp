#include <algorithm>

#include "passes/fusions.h"
#include "passes/match.h"

namespace llmc::passes {

namespace {

/// Returns whether the node can normalize its operand, and reads `value` only as that operand.
bool takes_norm(const ir::Node& node, ir::ValueId value) {
  const auto* linear = std::get_if<ir::Linear>(&node.op);
  const auto* qkv = std::get_if<ir::QkvProjection>(&node.op);
  if (!(linear && !linear->norm_epsilon) && !(qkv && !qkv->norm_epsilon)) return false;
  return node.inputs[0] == value && std::ranges::count(node.inputs, value) == 1;
}

struct Norm {
  ir::NormKind kind = ir::NormKind::kRms;
  float epsilon = 0;
  ir::ValueId x, weight, bias = ir::kNoValue;
};

/// Returns the norm that node i computes, if its weights are constants; otherwise nullopt.
std::optional<Norm> match_norm(const Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  Norm found;
  if (const auto* rms = std::get_if<ir::RmsNorm>(&node.op)) {
    found.epsilon = rms->epsilon;
  } else if (const auto* layer = std::get_if<ir::LayerNorm>(&node.op)) {
    found.kind = ir::NormKind::kLayer;
    found.epsilon = layer->epsilon;
    if (node.inputs.size() > 2) found.bias = node.inputs[2];
  } else {
    return std::nullopt;
  }
  found.x = node.inputs[0];
  found.weight = node.inputs[1];
  if (!rw.constant(found.weight) || (found.bias.exists() && !rw.constant(found.bias)))
    return std::nullopt;
  return found;
}

/// Adds the norm to a node as its prologue, by changing its operator and operands.
void put_norm(const Norm& norm, ir::Op& op, std::vector<ir::ValueId>& inputs) {
  const auto put = [&](std::size_t operand, ir::ValueId value) {
    if (!value.exists()) return;
    inputs.resize(std::max(operand + 1, inputs.size()), ir::kNoValue);
    inputs[operand] = value;
  };
  const auto set = [&](auto& stage, std::size_t bias) {
    stage.norm_epsilon = norm.epsilon;
    stage.norm_kind = norm.kind;
    put(bias, norm.bias);
  };
  if (auto* linear = std::get_if<ir::Linear>(&op)) set(*linear, 5);
  if (auto* qkv = std::get_if<ir::QkvProjection>(&op)) set(*qkv, 6);
  put(0, norm.x);
  put(3, norm.weight);
}

}  // namespace

Result<ir::Graph> fuse_norm(ir::Graph graph, const PassContext&) {
  return rewrite_nodes(std::move(graph), [](Rewriter& rw, NodeIndex i) {
    const auto norm = match_norm(rw, i);
    if (!norm) return;
    const ir::ValueId normalized = rw.node(i).outputs[0];
    const std::vector<NodeIndex> users = rw.users(normalized);
    const bool all = std::ranges::all_of(
        users, [&](NodeIndex user) { return takes_norm(rw.node(user), normalized); });
    if (!all || users.empty() || rw.is_output(normalized)) return;
    for (NodeIndex user : users) {
      ir::Op op = rw.node(user).op;
      std::vector<ir::ValueId> inputs = rw.node(user).inputs;
      put_norm(*norm, op, inputs);
      const std::vector<ir::ValueId> old = rw.node(user).outputs;
      const auto outputs = rw.emit_all(std::move(op), std::move(inputs), user);
      for (std::size_t s = 0; s < old.size(); ++s) rw.replace(old[s], outputs[s]);
    }
  });
}

}  // namespace llmc::passes

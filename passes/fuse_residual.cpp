#include <algorithm>

#include "passes/fusions.h"
#include "passes/match.h"

namespace llmc::passes {

namespace {

using ir::ValueId;

constexpr int kMaxChain = 8;  // maximum number of nested residuals to follow

/// Returns whether `value` is a constant or a view of one. Such a residual has no rows in memory
/// that a stage could read.
bool is_view_of_constant(const Rewriter& rw, ValueId value) {
  for (int step = 0; step < kMaxChain; ++step) {
    if (rw.constant(value)) return true;
    const ir::Node* node = rw.producer(value);
    if (!node || !ir::is_view(node->op)) return false;
    value = node->inputs[0];
  }
  return false;
}

/// Emits the layer that computes `product`, with `added` as its residual. If the layer already has
/// a residual that is such a layer, `added` becomes the residual of that layer. Returns kNoValue if
/// neither is possible.
ValueId with_residual(Rewriter& rw, ValueId product, ValueId added, NodeIndex anchor, int depth) {
  const auto* linear = rw.op<ir::Linear>(product);
  if (depth > kMaxChain || !linear || linear->gated || rw.use_count(product) != 1 ||
      rw.type(product) != rw.type(added))
    return ir::kNoValue;
  const ir::Linear op = *linear;
  std::vector<ValueId> inputs = rw.producer(product)->inputs;
  inputs.resize(std::max<std::size_t>(5, inputs.size()), ir::kNoValue);
  if (inputs[4].exists()) added = with_residual(rw, inputs[4], added, anchor, depth + 1);
  if (!added.exists()) return ir::kNoValue;
  inputs[4] = added;
  // Emit at the position of the sum, where the residual is defined.
  const ir::Origin origin = rw.origin(product);
  const ValueId sum = rw.emit(op, std::move(inputs), anchor);
  rw.set_origin(sum, origin);
  return sum;
}

}  // namespace

Result<ir::Graph> fuse_residual(ir::Graph graph, const PassContext&) {
  return rewrite_nodes<ir::Binary>(std::move(graph), [](Rewriter& rw, NodeIndex i) {
    const ValueId sum = rw.node(i).outputs[0];
    // Try the right operand first, because blocks compute x + f(x).
    for (const auto& [residual, product] : either_order(rw, sum, ir::BinaryKind::kAdd)) {
      if (is_view_of_constant(rw, residual) || rw.type(product) != rw.type(sum)) continue;
      const ValueId fused = with_residual(rw, product, residual, i, 0);
      if (!fused.exists()) continue;
      rw.replace(sum, fused);
      break;
    }
  });
}

}  // namespace llmc::passes

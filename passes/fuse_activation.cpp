#include "passes/fusions.h"
#include "passes/match.h"

namespace llmc::passes {

Result<ir::Graph> fuse_activation(ir::Graph graph, const PassContext&) {
  Rewriter rw(std::move(graph));
  for (NodeIndex i = 0; i < rw.size(); ++i) {
    const auto* un = std::get_if<ir::Unary>(&rw.node(i).op);
    const auto function = rw.alive(i) && un ? ir::activation_fn(un->kind) : std::nullopt;
    if (!function || *function == ir::ActivationFn::kNone) continue;
    const ir::ValueId product = rw.node(i).inputs[0], result = rw.node(i).outputs[0];
    const auto* linear = rw.op<ir::Linear>(product);
    if (!linear || rw.use_count(product) != 1 || linear->gated ||
        linear->function != ir::ActivationFn::kNone)
      continue;
    const std::vector<ir::ValueId> inputs = rw.producer(product)->inputs;
    if (inputs.size() > 4 && inputs[4].exists()) continue;
    ir::Linear op = *linear;
    op.function = *function;
    const ir::ValueId activated = rw.emit(op, inputs, i);
    rw.set_origin(activated, rw.origin(product));
    rw.replace(result, activated);
  }
  return std::move(rw).finish();
}

}  // namespace llmc::passes

#include "passes/fusions.h"
#include "passes/match.h"

namespace llmc::passes {

Result<ir::Graph> fuse_activation(ir::Graph graph, const PassContext&) {
  return rewrite_nodes<ir::Unary>(std::move(graph), [](Rewriter& rw, NodeIndex i) {
    const auto function = ir::activation_fn(std::get<ir::Unary>(rw.node(i).op).kind);
    if (!function) return;
    const ir::ValueId product = rw.node(i).inputs[0], result = rw.node(i).outputs[0];
    const auto* linear = rw.op<ir::Linear>(product);
    if (!linear || rw.use_count(product) != 1 || linear->gated ||
        linear->function != ir::ActivationFn::kNone)
      return;
    const ir::Node& node = *rw.producer(product);
    if (node.operand(4).exists()) return;
    ir::Linear op = *linear;
    op.function = *function;
    const ir::ValueId activated = rw.emit(op, node.inputs, i);
    rw.set_origin(activated, rw.origin(product));
    rw.replace(result, activated);
  });
}

}  // namespace llmc::passes

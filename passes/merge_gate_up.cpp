#include "passes/fusions.h"
#include "passes/match.h"
#include "passes/product_weights.h"

namespace llmc::passes {

Result<ir::Graph> merge_gate_up(ir::Graph graph, const PassContext&) {
  return rewrite_nodes<ir::GatedActivation>(std::move(graph), [](Rewriter& rw, NodeIndex i) {
    const ir::Node& node = rw.node(i);
    std::vector<PlainLinear> layers;
    for (const ir::ValueId projection : node.inputs) {
      const auto layer = match_plain_linear(rw, projection);
      if (!layer || rw.use_count(projection) != 1) return;
      layers.push_back(*layer);
    }
    if (!can_be_stacked(layers)) return;
    ir::Linear op;
    op.function = std::get<ir::GatedActivation>(node.op).function;
    op.gated = true;
    const ir::ValueId merged = rw.emit(op, emit_stacked(rw, layers, i), i);
    rw.set_origin(merged, rw.origin(node.inputs[0]));
    rw.replace(node.outputs[0], merged);
  });
}

}  // namespace llmc::passes

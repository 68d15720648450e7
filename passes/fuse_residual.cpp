#include "passes/fuse_residual.h"

#include "passes/match.h"

namespace llmc::passes {

Result<ir::Graph> fuse_residual(ir::Graph graph, const PassContext&) {
  using ir::ValueId;
  Rewriter rw(std::move(graph));
  for (NodeIndex i = 0; i < rw.size(); ++i) {
    if (!rw.alive(i) || !std::holds_alternative<ir::Binary>(rw.node(i).op)) continue;
    const ValueId sum = rw.node(i).outputs[0];
    const auto operands = binary(rw, sum, ir::BinaryKind::kAdd);
    if (!operands) continue;
    // The right side first: `x + f(x)` is how blocks are written.
    for (const auto& [product, residual] :
         {std::pair(operands->right, operands->left), std::pair(operands->left, operands->right)}) {
      const auto* linear = rw.op<ir::Linear>(product);
      if (!linear || linear->gated || rw.use_count(product) != 1 || rw.constant(residual) ||
          rw.type(product) != rw.type(residual) || rw.type(product) != rw.type(sum))
        continue;
      std::vector<ValueId> inputs = rw.producer(product)->inputs;
      if (inputs.size() > 4 && inputs[4].exists()) continue;
      inputs.resize(5, ir::kNoValue);
      inputs[4] = residual;
      // Where the sum stood: the residual is there by then.
      rw.replace(sum, rw.emit(*linear, std::move(inputs), i));
      break;
    }
  }
  return std::move(rw).finish();
}

}  // namespace llmc::passes

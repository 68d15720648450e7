#include "passes/match.h"
#include "passes/transforms.h"

namespace llmc::passes {

namespace {

using ir::ValueId;

/// Returns whether `node` selects whole rows of its operand or is a view that keeps the last dim.
bool keeps_rows(const Rewriter& rw, const ir::Node& node) {
  const ValueId x = node.inputs.empty() ? ir::kNoValue : node.inputs[0];
  if (const auto* gather = std::get_if<ir::Gather>(&node.op)) {
    const std::size_t rank = rw.type(x).rank();
    return rank >= 2 && rw.constant(node.inputs[1]) &&
           rw.constant(node.inputs[1])->element_count() == 1 && !is_last_axis(gather->axis, rank);
  }
  const bool view = ir::is_reshape(node.op);
  return view && last_dim(rw, x) && last_dim(rw, x) == last_dim(rw, node.outputs[0]);
}

/// Returns the index of the operand with the rows: the operand that is not a scalar constant.
std::size_t row_operand(const Rewriter& rw, const ir::Node& node) {
  const bool second = std::holds_alternative<ir::Binary>(node.op) && rw.constant(node.inputs[0]);
  return second ? 1 : 0;
}

/// Returns whether the node is a function of one element, or of one element and a scalar.
bool is_elementwise(const Rewriter& rw, const ir::Node* node) {
  if (ir::op_as<ir::Unary>(node)) return true;
  if (!ir::op_as<ir::Binary>(node)) return false;
  const std::size_t rows = row_operand(rw, *node);
  return scalar_constant(rw, node->inputs[1 - rows]) &&
         rw.type(node->inputs[rows]) == rw.type(node->outputs[0]) &&
         rw.type(node->inputs[1 - rows]).rank() == 0;
}

}  // namespace

Result<ir::Graph> select_row_early(ir::Graph graph, const PassContext&) {
  return rewrite_nodes(std::move(graph), [](Rewriter& rw, NodeIndex i) {
    const ir::Node& node = rw.node(i);
    if (!keeps_rows(rw, node)) return;
    const ValueId rows = node.inputs[0];
    if (rw.use_count(rows) != 1) return;
    const ir::Node* above = rw.producer(rows);
    const auto* linear = ir::op_as<ir::Linear>(above);
    const bool gather = std::holds_alternative<ir::Gather>(node.op);
    const bool norm = ir::op_as<ir::RmsNorm>(above) || ir::op_as<ir::LayerNorm>(above);
    if (!norm && !(linear && gather) && !(gather && is_elementwise(rw, above))) return;
    if (linear && above->operand(4).exists()) return;
    // A view is moved only before a norm, because its shape operand contains the number of columns,
    // which a linear layer changes. Both operators also accept a selected row of rank 1.
    std::vector<ValueId> selection = node.inputs;
    const std::size_t source = row_operand(rw, *above);
    selection[0] = above->inputs[source];
    std::vector<ValueId> operands = above->inputs;
    operands[source] = rw.emit(node.op, std::move(selection), i);
    rw.replace(node.outputs[0], rw.emit(above->op, std::move(operands), i));
  });
}

}  // namespace llmc::passes

#include "passes/fusions.h"
#include "passes/match.h"
#include "passes/product_weights.h"

namespace llmc::passes {

namespace {

using ir::ValueId;

struct Projection {
  ValueId x;
  ir::ConstantPtr weight, bias;
  ValueId weight_value;
};

/// Returns the linear layer that computes `value` if it has no norm, activation or residual, and
/// one user.
std::optional<Projection> match_projection(const Rewriter& rw, ValueId value) {
  const auto* linear = rw.op<ir::Linear>(value);
  if (!linear || rw.use_count(value) != 1 || linear->norm_epsilon || linear->gated ||
      linear->function != ir::ActivationFn::kNone)
    return std::nullopt;
  const auto& inputs = rw.producer(value)->inputs;
  if (inputs.size() > 4 && inputs[4].exists()) return std::nullopt;
  Projection found{inputs[0], rw.constant(inputs[1]), nullptr, inputs[1]};
  if (inputs.size() > 2 && inputs[2].exists()) {
    found.bias = rw.constant(inputs[2]);
    if (!found.bias) return std::nullopt;
  }
  return found.weight ? std::optional(found) : std::nullopt;
}

}  // namespace

Result<ir::Graph> merge_gate_up(ir::Graph graph, const PassContext&) {
  Rewriter rw(std::move(graph));
  for (NodeIndex i = 0; i < rw.size(); ++i) {
    const auto* gated = std::get_if<ir::GatedActivation>(&rw.node(i).op);
    if (!rw.alive(i) || !gated) continue;
    const std::vector<ValueId> inputs = rw.node(i).inputs;
    const auto gate = match_projection(rw, inputs[0]), up = match_projection(rw, inputs[1]);
    if (!gate || !up || gate->x != up->x || gate->weight->element() != up->weight->element())
      continue;
    const ValueId weight =
        rw.emit_constant(ir::concat_rows({gate->weight, up->weight}), i,
                         stacked_name(rw, {gate->weight_value, up->weight_value}));
    std::vector<ValueId> operands{gate->x, weight};
    if (const ir::ConstantPtr bias =
            stack_biases({{{gate->weight, gate->bias}, {up->weight, up->bias}}}))
      operands.push_back(rw.emit_constant(bias, i));
    ir::Linear op;
    op.function = gated->function;
    op.gated = true;
    const ValueId merged = rw.emit(op, std::move(operands), i);
    rw.set_origin(merged, rw.origin(inputs[0]));
    rw.replace(rw.node(i).outputs[0], merged);
  }
  return std::move(rw).finish();
}

}  // namespace llmc::passes

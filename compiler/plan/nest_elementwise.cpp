#include "compiler/plan/nest_lower.h"

/// Lowers elementwise operators to expressions, which are stored only when a reader needs them in
/// memory.
namespace llmc::plan {

Status NestLowerer::lower(const ir::Node& node, const ir::Unary& op) {
  const ir::ValueId y = node.outputs[0];
  if (op.kind == ir::UnaryKind::kIdentity) {
    set(y, expression(node.inputs[0]));
  } else {
    set(y, unary(op.kind, computed_in(element(y)), expression(node.inputs[0])));
  }
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::Binary& op) {
  const ir::ValueId y = node.outputs[0];
  if (op.kind == ir::BinaryKind::kPow) {
    const ir::ConstantPtr exponent = constant(node.inputs[1]);
    if (exponent && exponent->element_count() == 1 && ir::to_doubles(*exponent)[0] == 2) {
      const ExpressionPtr x = broadcast_to(node.inputs[0], dims(y));
      set(y, binary(ir::BinaryKind::kMul, computed_in(element(y)), x, x));
      return ok_status();
    }
  }
  set(y, binary(op.kind, computed_in(element(y)), broadcast_to(node.inputs[0], dims(y)),
                broadcast_to(node.inputs[1], dims(y))));
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::Where&) {
  const Sizes& to = dims(node.outputs[0]);
  set(node.outputs[0], where(broadcast_to(node.inputs[0], to), broadcast_to(node.inputs[1], to),
                             broadcast_to(node.inputs[2], to)));
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::Cast& op) {
  const ExpressionPtr& x = expression(node.inputs[0]);
  // A conversion to 16 bits stays a cast, which rounds the value and returns an f32. A conversion
  // from 16 bits to f32 changes nothing: such values are already kept as f32.
  const bool same = computed_in(element(node.inputs[0])) == op.to;
  set(node.outputs[0], same ? x : cast(op.to, x));
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::GatedActivation& op) {
  const ir::ElementType type = computed_in(element(node.outputs[0]));
  ExpressionPtr gate = expression(node.inputs[0]);
  const ir::UnaryKind kind = ir::unary_kind(op.function);
  if (kind != ir::UnaryKind::kIdentity) gate = unary(kind, type, gate);
  set(node.outputs[0], binary(ir::BinaryKind::kMul, type, gate, expression(node.inputs[1])));
  return ok_status();
}

}  // namespace llmc::plan

#include <array>

#include "passes/fusions.h"
#include "passes/match.h"

namespace llmc::passes {

namespace {

using ir::BinaryKind;
using ir::ValueId;

/// Returns the gate and the remaining factor if one of three factors is sigmoid(gate), otherwise
/// nullopt.
std::optional<Operands> match_factors(const Rewriter& rw, const std::array<ValueId, 3>& factors) {
  for (std::size_t s = 0; s < 3; ++s) {
    const auto gate = unary(rw, factors[s], ir::UnaryKind::kSigmoid);
    if (!gate) continue;
    for (std::size_t g = 0; g < 3; ++g) {
      if (g == s || factors[g] != *gate) continue;
      const ValueId up = factors[3 - s - g];
      if (is_f32(rw, *gate, 1) && rw.type(*gate) == rw.type(up)) return Operands{*gate, up};
    }
  }
  return std::nullopt;
}

/// Fuses gate * sigmoid(gate) * up.
void fuse_three_factors(Rewriter& rw, NodeIndex i) {
  const ValueId result = rw.node(i).outputs[0];
  for (const auto& [product, third] : either_order(rw, result, BinaryKind::kMul)) {
    const auto inner = binary(rw, product, BinaryKind::kMul);
    if (!inner) continue;
    const auto found = match_factors(rw, {inner->left, inner->right, third});
    if (!found || rw.type(found->left) != rw.type(result)) continue;
    rw.replace(result, rw.emit(ir::GatedActivation{}, {found->left, found->right}, i));
    return;
  }
}

void fuse_silu(Rewriter& rw, NodeIndex i) {
  const ValueId result = rw.node(i).outputs[0];
  for (const auto& [sigmoid, x] : either_order(rw, result, BinaryKind::kMul)) {
    if (unary(rw, sigmoid, ir::UnaryKind::kSigmoid) != x || !is_f32(rw, x, 0)) continue;
    rw.replace(result, rw.emit(ir::Unary{ir::UnaryKind::kSilu}, {x}, i));
    return;
  }
}

void fuse_function(Rewriter& rw, NodeIndex i) {
  const ValueId result = rw.node(i).outputs[0];
  for (const auto& [activated, up] : either_order(rw, result, BinaryKind::kMul)) {
    const auto* op = rw.op<ir::Unary>(activated);
    const auto function = op ? ir::activation_fn(op->kind) : std::nullopt;
    if (!function || rw.use_count(activated) != 1 || rw.constant(up)) continue;
    const ValueId gate = rw.producer(activated)->inputs[0];
    if (!is_f32(rw, gate, 1) || rw.type(gate) != rw.type(up) || rw.type(gate) != rw.type(result))
      continue;
    rw.replace(result, rw.emit(ir::GatedActivation{*function}, {gate, up}, i));
    return;
  }
}

}  // namespace

Result<ir::Graph> fuse_gated_activation(ir::Graph graph, const PassContext&) {
  Rewriter rw(std::move(graph));
  // Try the most specific pattern first, because it contains the others.
  for (const auto fuse : {fuse_three_factors, fuse_silu, fuse_function})
    for (const NodeIndex i : rw.nodes<ir::Binary>()) fuse(rw, i);
  return std::move(rw).finish();
}

}  // namespace llmc::passes

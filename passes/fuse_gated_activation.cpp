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

/// Fuses gate * sigmoid(gate) * up. `outer` are the factors of the product `result`.
bool fuse_three_factors(Rewriter& rw, NodeIndex i, ValueId result, const Operands& outer) {
  for (const auto& [product, third] :
       {std::pair(outer.left, outer.right), std::pair(outer.right, outer.left)}) {
    const auto inner = binary(rw, product, BinaryKind::kMul);
    if (!inner) continue;
    const auto found = match_factors(rw, {inner->left, inner->right, third});
    if (!found || rw.type(found->left) != rw.type(result)) continue;
    rw.replace(result, rw.emit(ir::GatedActivation{}, {found->left, found->right}, i));
    return true;
  }
  return false;
}

bool fuse_silu(Rewriter& rw, NodeIndex i, ValueId result, const Operands& factors) {
  for (const auto& [sigmoid, x] :
       {std::pair(factors.left, factors.right), std::pair(factors.right, factors.left)}) {
    if (unary(rw, sigmoid, ir::UnaryKind::kSigmoid) != x || !is_f32(rw, x, 0)) continue;
    rw.replace(result, rw.emit(ir::Unary{ir::UnaryKind::kSilu}, {x}, i));
    return true;
  }
  return false;
}

bool fuse_function(Rewriter& rw, NodeIndex i, ValueId result, const Operands& factors) {
  for (const auto& [activated, up] :
       {std::pair(factors.left, factors.right), std::pair(factors.right, factors.left)}) {
    const auto* op = rw.op<ir::Unary>(activated);
    const auto function = op ? ir::activation_fn(op->kind) : std::nullopt;
    if (!function || rw.use_count(activated) != 1 || rw.constant(up)) continue;
    const ValueId gate = rw.producer(activated)->inputs[0];
    if (!is_f32(rw, gate, 1) || rw.type(gate) != rw.type(up) || rw.type(gate) != rw.type(result))
      continue;
    rw.replace(result, rw.emit(ir::GatedActivation{*function}, {gate, up}, i));
    return true;
  }
  return false;
}

using Fusion = bool (*)(Rewriter&, NodeIndex, ValueId, const Operands&);

void for_each_product(Rewriter& rw, Fusion fuse) {
  for (NodeIndex i = 0; i < rw.size(); ++i) {
    if (!rw.alive(i) || !std::holds_alternative<ir::Binary>(rw.node(i).op)) continue;
    const ValueId result = rw.node(i).outputs[0];
    if (const auto factors = binary(rw, result, BinaryKind::kMul)) fuse(rw, i, result, *factors);
  }
}

}  // namespace

Result<ir::Graph> fuse_gated_activation(ir::Graph graph, const PassContext&) {
  Rewriter rw(std::move(graph));
  // Try the most specific pattern first, because it contains the others.
  for (const Fusion fuse : {fuse_three_factors, fuse_silu, fuse_function})
    for_each_product(rw, fuse);
  return std::move(rw).finish();
}

}  // namespace llmc::passes

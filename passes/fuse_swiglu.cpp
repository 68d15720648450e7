#include "passes/fuse_swiglu.h"

#include <array>

#include "passes/match.h"

namespace llmc::passes {

namespace {

using ir::BinaryKind;
using ir::ValueId;

/// The gate among three factors of which one is sigmoid(gate), and the factor left over.
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

}  // namespace

Result<ir::Graph> fuse_swiglu(ir::Graph graph, const PassContext&) {
  Rewriter rw(std::move(graph));
  for (NodeIndex i = 0; i < rw.size(); ++i) {
    if (!rw.alive(i) || !std::holds_alternative<ir::Binary>(rw.node(i).op)) continue;
    const ValueId result = rw.node(i).outputs[0];
    const auto outer = binary(rw, result, BinaryKind::kMul);
    if (!outer) continue;
    std::optional<Operands> found;
    for (const auto& [product, third] :
         {std::pair(outer->left, outer->right), std::pair(outer->right, outer->left)}) {
      const auto inner = binary(rw, product, BinaryKind::kMul);
      if (inner && !found) found = match_factors(rw, {inner->left, inner->right, third});
    }
    if (found && rw.type(found->left) == rw.type(result))
      rw.replace(result, rw.emit(ir::SwiGlu{}, {found->left, found->right}, i));
  }
  return std::move(rw).finish();
}

}  // namespace llmc::passes

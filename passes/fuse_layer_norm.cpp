#include "passes/fusions.h"
#include "passes/match.h"

namespace llmc::passes {

namespace {

using ir::BinaryKind;
using ir::ValueId;

/// Matches x - mean(x) and returns x.
std::optional<ValueId> match_centred(const Rewriter& rw, ValueId value) {
  const auto difference = binary(rw, value, BinaryKind::kSub);
  if (!difference) return std::nullopt;
  const auto* mean = rw.op<ir::Reduce>(difference->right);
  if (!mean || mean->kind != ir::ReduceKind::kMean || !mean->keep_dims ||
      rw.producer(difference->right)->inputs[0] != difference->left ||
      !is_last_axis(mean->axes, rw.type(difference->left).rank()))
    return std::nullopt;
  return difference->left;
}

}  // namespace

Result<ir::Graph> fuse_layer_norm(ir::Graph graph, const PassContext&) {
  return rewrite_nodes<ir::RmsNorm>(std::move(graph), [](Rewriter& rw, NodeIndex i) {
    const auto x = match_centred(rw, rw.node(i).inputs[0]);
    if (!x) return;
    const float epsilon = std::get<ir::RmsNorm>(rw.node(i).op).epsilon;
    const ValueId normalized = rw.node(i).outputs[0], weight = rw.node(i).inputs[1];
    std::vector<ValueId> inputs{*x, weight};
    ValueId result = normalized;
    if (rw.use_count(normalized) == 1 && !rw.users(normalized).empty()) {
      const ValueId shifted = rw.node(rw.users(normalized)[0]).outputs[0];
      const auto sum = binary(rw, shifted, BinaryKind::kAdd);
      const ValueId other = !sum ? ir::kNoValue : sum->left == normalized ? sum->right : sum->left;
      const ir::ConstantPtr bias = other.exists() ? row_constant(rw, other, normalized) : nullptr;
      if (bias && rw.type(shifted) == rw.type(normalized)) {
        inputs.push_back(constant_operand(rw, other, bias, i));
        result = shifted;
      }
    }
    const NodeIndex anchor = *rw.producer_index(result);
    rw.replace(result, rw.emit(ir::LayerNorm{epsilon}, std::move(inputs), anchor));
  });
}

}  // namespace llmc::passes

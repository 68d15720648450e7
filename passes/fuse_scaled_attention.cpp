#include "passes/fuse_scaled_attention.h"

#include <cmath>

#include "passes/match.h"

namespace llmc::passes {

namespace {

using ir::ValueId;

constexpr int kMaxScoreSteps = 6;  // maximum number of operators between the two products

struct Match {
  ir::ScaledAttention op;
  ValueId q, k, bias, mask;
};

/// Returns the number if `value` is a scalar f32 constant, otherwise nullopt.
std::optional<float> scalar(const Rewriter& rw, ValueId value) {
  const auto number = scalar_constant(rw, value);
  return number && is_f32(rw, value) ? std::optional(static_cast<float>(*number)) : std::nullopt;
}

/// Traces the scores from the softmax backwards to the product.
class Walk {
 public:
  Walk(const Rewriter& rw, Match& found) : rw_(rw), found_(found) {}

  bool from(ValueId value) {
    for (int step = 0; step < kMaxScoreSteps; ++step) {
      const ir::Node* node = rw_.producer(value);
      if (node == nullptr || rw_.use_count(value) != 1) return false;
      if (std::holds_alternative<ir::MatMul>(node->op)) {
        found_.q = node->inputs[0];
        found_.k = node->inputs[1];
        return true;
      }
      value = through(*node, value);
      if (!value.exists()) return false;
    }
    return false;
  }

 private:
  bool is_score(ValueId value, ValueId result) const {
    return rw_.producer(value) != nullptr && rw_.use_count(value) == 1 &&
           rw_.type(value) == rw_.type(result) && !rw_.constant(value);
  }
  /// Returns the score operand of an elementwise node and records its other operand.
  ValueId through(const ir::Node& node, ValueId result) {
    if (const auto* binary = std::get_if<ir::Binary>(&node.op)) {
      const ValueId a = node.inputs[0], b = node.inputs[1];
      const bool product = binary->kind == ir::BinaryKind::kMul;
      if (product || binary->kind == ir::BinaryKind::kDiv) {
        const bool swapped = product && scalar(rw_, a).has_value();
        const auto factor = scalar(rw_, swapped ? a : b);
        if (!factor || *factor == 0) return ir::kNoValue;
        // A scale is accepted only before the bias, because a later one would also scale the bias.
        found_.op.scale *= product ? *factor : 1.0f / *factor;
        scaled_ = true;
        return swapped ? b : a;
      }
      if (binary->kind != ir::BinaryKind::kAdd || added_ || scaled_) return ir::kNoValue;
      added_ = true;
      const bool first = leads_to_product(a, result);
      found_.bias = first ? b : a;
      return first ? a : leads_to_product(b, result) ? b : ir::kNoValue;
    }
    if (std::holds_alternative<ir::Where>(node.op)) {
      if (added_ || scaled_) return ir::kNoValue;
      added_ = true;
      found_.mask = node.inputs[0];
      found_.op.keeps = is_score(node.inputs[1], result);
      const auto fill = scalar(rw_, node.inputs[found_.op.keeps ? 2 : 1]);
      if (!fill || *fill == 0) return ir::kNoValue;
      found_.op.fill = *fill;
      const ValueId score = node.inputs[found_.op.keeps ? 1 : 2];
      return is_score(score, result) ? score : ir::kNoValue;
    }
    return ir::kNoValue;
  }
  bool leads_to_product(ValueId value, ValueId result) const {
    for (int step = 0; step < kMaxScoreSteps && is_score(value, result); ++step) {
      const ir::Node* node = rw_.producer(value);
      if (std::holds_alternative<ir::MatMul>(node->op)) return true;
      const auto* binary = std::get_if<ir::Binary>(&node->op);
      if (!binary) return false;
      value = scalar(rw_, node->inputs[0]) ? node->inputs[1] : node->inputs[0];
    }
    return false;
  }

  const Rewriter& rw_;
  Match& found_;
  bool added_ = false, scaled_ = false;
};

std::optional<Match> match(const Rewriter& rw, const ir::Node& product) {
  if (!std::holds_alternative<ir::MatMul>(product.op)) return std::nullopt;
  const ValueId weights = product.inputs[0], v = product.inputs[1];
  const auto* softmax = rw.op<ir::Softmax>(weights);
  if (softmax == nullptr || rw.use_count(weights) != 1 ||
      !is_last_axis(softmax->axis, rw.type(weights).rank()))
    return std::nullopt;
  Match found;
  if (!Walk(rw, found).from(rw.producer(weights)->inputs[0])) return std::nullopt;
  for (const ValueId value : {found.q, found.k, v})
    if (!is_f32(rw, value, 2) || ir::element_count(rw.type(value)) == 0) return std::nullopt;
  if (!std::isnormal(found.op.scale)) return std::nullopt;
  if (found.bias.exists() && !is_f32(rw, found.bias)) return std::nullopt;
  return found;
}

}  // namespace

Result<ir::Graph> fuse_scaled_attention(ir::Graph graph, const PassContext& context) {
  if (context.is_decoder) return graph;
  Rewriter rw(std::move(graph));
  for (NodeIndex i = 0; i < rw.size(); ++i) {
    if (!rw.alive(i)) continue;
    const auto found = match(rw, rw.node(i));
    if (!found) continue;
    const ValueId v = rw.node(i).inputs[1], y = rw.node(i).outputs[0];
    std::vector<ValueId> inputs{found->q, found->k, v};
    if (found->bias.exists() || found->mask.exists()) inputs.push_back(found->bias);
    if (found->mask.exists()) inputs.push_back(found->mask);
    rw.replace(y, rw.emit(found->op, std::move(inputs), i));
  }
  return std::move(rw).finish();
}

}  // namespace llmc::passes

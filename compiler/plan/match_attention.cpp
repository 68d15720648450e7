#include "compiler/plan/match_attention.h"

#include <cmath>

#include "compiler/ir/shape_rules.h"

namespace llmc::plan {
namespace {

constexpr int kMaxSteps = 6;  // between the two products

std::optional<float> scalar(const ir::UseDef& uses, ir::ValueId value) {
  const ir::ConstantPtr data = uses.constant(value);
  if (!data || data->element() != ir::ElementType::kF32 || data->element_count() != 1)
    return std::nullopt;
  return static_cast<float>(ir::to_doubles(*data)[0]);
}

/// Whether a dim is 0, so that there is nothing to multiply or to choose from.
bool is_empty(const ir::Graph& graph, ir::ValueId value) {
  return ir::element_count(graph.value(value).type) == 0;
}

bool is_f32(const ir::Graph& graph, ir::ValueId value) {
  return graph.value(value).type.element == ir::ElementType::kF32;
}

/// Follows the scores upwards from the softmax to their product.
class Walk {
 public:
  Walk(const ir::Graph& graph, const ir::UseDef& uses, AttentionPattern& found)
      : graph_(graph), uses_(uses), found_(found) {}

  bool from(ir::ValueId value) {
    for (int step = 0; step < kMaxSteps; ++step) {
      const ir::Node* node = uses_.producer(value);
      if (node == nullptr || uses_.use_count(value) != 1) return false;
      found_.inner.push_back(node);
      if (std::holds_alternative<ir::MatMul>(node->op)) {
        found_.q = node->inputs[0];
        found_.k = node->inputs[1];
        return true;
      }
      const ir::ValueId next = through(*node, value);
      if (!next.exists()) return false;
      value = next;
    }
    return false;
  }

 private:
  bool is_score(ir::ValueId value, const ir::ValueId result) const {
    return uses_.producer(value) != nullptr && uses_.use_count(value) == 1 &&
           graph_.value(value).type == graph_.value(result).type && !uses_.constant(value);
  }
  /// The operand of an elementwise node that is the score, its other operand noted.
  ir::ValueId through(const ir::Node& node, ir::ValueId result) {
    if (const auto* binary = std::get_if<ir::Binary>(&node.op)) {
      const ir::ValueId a = node.inputs[0], b = node.inputs[1];
      const bool product = binary->kind == ir::BinaryKind::kMul;
      if (product || binary->kind == ir::BinaryKind::kDiv) {
        const bool swapped = product && scalar(uses_, a).has_value();
        const auto factor = scalar(uses_, swapped ? a : b);
        if (!factor || *factor == 0) return ir::kNoValue;
        // Below a bias only: a scale after it would scale the bias too.
        found_.scale *= product ? *factor : 1.0f / *factor;
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
      found_.kept = is_score(node.inputs[1], result);
      const auto fill = scalar(uses_, node.inputs[found_.kept ? 2 : 1]);
      if (!fill || *fill == 0) return ir::kNoValue;
      found_.fill = *fill;
      const ir::ValueId score = node.inputs[found_.kept ? 1 : 2];
      return is_score(score, result) ? score : ir::kNoValue;
    }
    return ir::kNoValue;
  }
  bool leads_to_product(ir::ValueId value, ir::ValueId result) const {
    for (int step = 0; step < kMaxSteps && is_score(value, result); ++step) {
      const ir::Node* node = uses_.producer(value);
      if (std::holds_alternative<ir::MatMul>(node->op)) return true;
      const auto* binary = std::get_if<ir::Binary>(&node->op);
      if (!binary) return false;
      value = scalar(uses_, node->inputs[0]) ? node->inputs[1] : node->inputs[0];
    }
    return false;
  }

  const ir::Graph& graph_;
  const ir::UseDef& uses_;
  AttentionPattern& found_;
  bool added_ = false, scaled_ = false;
};

}  // namespace

std::optional<AttentionPattern> match_attention(const ir::Graph& graph, const ir::UseDef& uses,
                                                const ir::Node& product) {
  if (!std::holds_alternative<ir::MatMul>(product.op)) return std::nullopt;
  const ir::ValueId weights = product.inputs[0];
  const ir::Node* softmax = uses.producer(weights);
  const auto* op = ir::op_as<ir::Softmax>(softmax);
  if (op == nullptr || uses.use_count(weights) != 1) return std::nullopt;
  const std::size_t rank = graph.value(weights).type.rank();
  const auto axis = ir::normalize_axis(op->axis, rank);
  AttentionPattern found;
  found.v = product.inputs[1];
  found.inner.push_back(softmax);
  if (rank < 2 || axis != rank - 1 || graph.value(found.v).type.rank() < 2) return std::nullopt;
  if (!Walk(graph, uses, found).from(softmax->inputs[0])) return std::nullopt;
  if (graph.value(found.q).type.rank() < 2 || graph.value(found.k).type.rank() < 2)
    return std::nullopt;
  for (const ir::ValueId value : {found.q, found.k, found.v})
    if (!is_f32(graph, value) || is_empty(graph, value)) return std::nullopt;
  if (!std::isnormal(found.scale)) return std::nullopt;
  if (found.bias.exists() && !is_f32(graph, found.bias)) return std::nullopt;
  return found;
}

}  // namespace llmc::plan

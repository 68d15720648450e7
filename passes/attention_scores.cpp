#include "passes/attention_scores.h"

#include <algorithm>
#include <cmath>

#include "compiler/reference/tensor.h"
#include "passes/mask_analysis.h"

namespace llmc::passes {

namespace {

using ir::BinaryKind;
using ir::ValueId;

constexpr int kMaxScoreDepth = 24;

/// Returns the operand of a view that only adds or removes dims of 1 or, with kAnyBatch, keeps the
/// last two dims.
std::optional<ValueId> through_view(const Rewriter& rw, ValueId value, ScoreViews views) {
  const ir::Node* node = rw.producer(value);
  if (!ir::is_reshape(node)) return std::nullopt;
  const ValueId x = node->inputs[0];
  const std::vector<ir::Dim>&from = rw.type(x).dims, &to = rw.type(value).dims;
  const bool same_matrices = views == ScoreViews::kAnyBatch && from.size() >= 2 && to.size() >= 2 &&
                             std::equal(from.end() - 2, from.end(), to.end() - 2);
  return same_matrices || without_ones(from) == without_ones(to) ? std::optional(x) : std::nullopt;
}

/// Returns x if `value` is max(x, c) with c <= -6e4, about the lowest f16; such a bound does not
/// affect scores.
std::optional<ValueId> through_bound(const Rewriter& rw, ValueId value) {
  constexpr double kLowest = -6e4;
  for (const auto& [x, bound] : either_order(rw, value, BinaryKind::kMax)) {
    const auto number = scalar_constant(rw, bound);
    if (number && *number <= kLowest && rw.type(x) == rw.type(value)) return x;
  }
  return std::nullopt;
}

/// Returns whether `value` is the scores: a matrix product of at least `rank` dims to which scale,
/// softcap or masks may be applied. `budget` is the maximum number of nodes to visit.
bool leads_to_product(const Rewriter& rw, ValueId value, std::size_t rank, ScoreViews views,
                      int& budget) {
  while (budget-- > 0) {
    if (rw.op<ir::MatMul>(value)) return rw.type(value).rank() >= rank;
    const ir::Node* node = rw.producer(value);
    if (!node) return false;
    if (const auto inner = through_view(rw, value, views)) {
      value = *inner;
    } else if (const auto factor = scalar_factor(rw, value)) {
      value = factor->value;
    } else if (const auto x = unary(rw, value, ir::UnaryKind::kTanh)) {
      value = *x;
    } else if (const auto bounded = through_bound(rw, value)) {
      value = *bounded;
    } else if (const auto sum = binary(rw, value, BinaryKind::kAdd)) {
      if (rw.type(sum->left) == rw.type(value) &&
          leads_to_product(rw, sum->left, rank, views, budget))
        return true;
      value = sum->right;
    } else if (std::holds_alternative<ir::Where>(node->op)) {
      value = scalar_constant(rw, node->inputs[1]) ? node->inputs[2] : node->inputs[1];
    } else {
      return false;
    }
  }
  return false;
}

bool leads_to_product(const Rewriter& rw, ValueId value, ScoreViews views) {
  int budget = 256;
  return leads_to_product(rw, value, std::min<std::size_t>(rw.type(value).rank(), 3), views,
                          budget);
}

/// Records the mask that the producer of `value` applies, and returns the masked operand; kNoValue
/// if it applies none.
ValueId take_mask(const Rewriter& rw, ValueId value, ScoreViews views, Scores& scores) {
  if (const auto sum = binary(rw, value, BinaryKind::kAdd)) {
    const bool left = leads_to_product(rw, sum->left, views);
    const ValueId kept = left ? sum->left : sum->right;
    if (rw.type(kept) != rw.type(value) || (!left && !leads_to_product(rw, kept, views)))
      return ir::kNoValue;
    scores.biases.push_back({left ? sum->right : sum->left, scores.scale, value});
    return kept;
  }
  auto replaced = match_replaced(rw, value);
  if (!replaced || rw.type(replaced->kept) != rw.type(value)) return ir::kNoValue;
  replaced->condition.scale = scores.scale;
  replaced->condition.biases = scores.biases.size();
  scores.conditions.push_back(replaced->condition);
  return replaced->kept;
}

/// Returns the operand of a slice that drops the last element along the last axis.
std::optional<ValueId> without_last(const Rewriter& rw, ValueId value) {
  if (!rw.op<ir::Slice>(value)) return std::nullopt;
  const ir::Node& node = *rw.producer(value);
  const auto maps = index_maps(rw, node);
  if (maps.size() != 1) return std::nullopt;
  for (std::size_t a = 0; a < maps[0].axes.size(); ++a)
    if (maps[0].axes[a].result_axis() != a) return std::nullopt;
  const auto& whole = rw.type(node.inputs[0]).dims;
  const auto& part = rw.type(value).dims;
  const bool only_last = std::equal(part.begin(), part.end() - 1, whole.begin());
  if (!only_last || ir::sub(whole.back(), part.back()) != ir::Dim(1)) return std::nullopt;
  return node.inputs[0];
}

/// Returns x if `value` is x - max(x) over the last axis, which has the same softmax; otherwise
/// `value`.
ValueId without_maximum(const Rewriter& rw, ValueId value) {
  const auto operands = binary(rw, value, BinaryKind::kSub);
  const auto* reduce = operands ? rw.op<ir::Reduce>(operands->right) : nullptr;
  const bool is_maximum = reduce && reduce->kind == ir::ReduceKind::kMax &&
                          is_last_axis(reduce->axes, rw.type(operands->left).rank()) &&
                          rw.producer(operands->right)->inputs[0] == operands->left &&
                          rw.type(operands->right).rank() == rw.type(value).rank();
  return is_maximum ? operands->left : value;
}

/// Returns the sinks f32[heads] if `value` f32[1, heads, queries, 1] is a constant that is the same
/// for all queries, otherwise nullptr.
ir::ConstantPtr sinks_of(const Rewriter& rw, ValueId value) {
  const std::vector<ir::Dim> dims = rw.type(value).dims;
  while (rw.op<ir::Expand>(value)) value = rw.producer(value)->inputs[0];
  const std::vector<ir::Dim> own = rw.type(value).dims;
  const auto heads = dims.size() == 4 ? dims[1].constant() : std::nullopt;
  if (!heads || own.size() < 3 || !(own[own.size() - 3] == dims[1])) return nullptr;
  const ir::ConstantPtr data = rw.constant(strip_views(rw, value));
  if (!data || data->element() != ir::ElementType::kF32 || data->element_count() != *heads)
    return nullptr;
  return reference::to_constant(
      reference::f32_tensor({*heads}, reference::to_tensor(*data).floats));
}

}  // namespace

bool Scores::Condition::hides() const {
  return fill <= MaskAnalysis::kHidden;
}

std::optional<Replaced> match_replaced(const Rewriter& rw, ValueId value) {
  if (!rw.op<ir::Where>(value)) return std::nullopt;
  const std::vector<ValueId>& inputs = rw.producer(value)->inputs;
  const auto yes = scalar_constant(rw, inputs[1]), no = scalar_constant(rw, inputs[2]);
  if (yes.has_value() == no.has_value()) return std::nullopt;
  return Replaced{{.value = inputs[0], .seen = !yes, .fill = yes ? *yes : *no, .result = value},
                  yes ? inputs[2] : inputs[1]};
}

std::optional<Scores> match_scores(const Rewriter& rw, ValueId value, ScoreViews views) {
  Scores scores;
  for (int depth = 0; depth < kMaxScoreDepth; ++depth) {
    if (rw.op<ir::MatMul>(value)) {
      scores.q = rw.producer(value)->inputs[0];
      scores.k = rw.producer(value)->inputs[1];
      scores.product = value;
      if (scores.softcap != 0 && !std::isnormal(static_cast<float>(scores.softcap)))
        return std::nullopt;
      return scores;
    }
    if (const auto inner = through_view(rw, value, views)) {
      value = *inner;
    } else if (const auto factor = scalar_factor(rw, value)) {
      if (!std::isfinite(factor->scalar)) return std::nullopt;
      scores.scale *= factor->scalar;
      value = factor->value;
    } else if (const auto x = unary(rw, value, ir::UnaryKind::kTanh)) {
      if (scores.softcap != 0 || !(scores.scale > 0)) return std::nullopt;
      scores.softcap = scores.scale;
      value = *x;
    } else if (const auto bounded = through_bound(rw, value)) {
      scores.bounded = true;
      value = *bounded;
    } else {
      // A factor after a mask scales the mask, too. Its number must remain large enough to hide a
      // score.
      if (scores.softcap != 0 || !(scores.scale >= 1e-2)) return std::nullopt;
      value = take_mask(rw, value, views, scores);
      if (!value.exists()) return std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<SoftmaxMatch> match_softmax(const Rewriter& rw, ValueId p, ScoreViews views) {
  constexpr int kMaxSteps = 8;
  bool dropped = false, nan_is_zero = false;
  for (int steps = 0; steps < kMaxSteps; ++steps) {
    if (const auto inner = through_view(rw, p, views)) {
      p = *inner;
    } else if (const auto whole = dropped ? std::nullopt : without_last(rw, p)) {
      p = *whole;
      dropped = true;
    } else if (rw.op<ir::Where>(p)) {
      const std::vector<ValueId> guard = rw.producer(p)->inputs;
      const auto tested = unary(rw, guard[0], ir::UnaryKind::kIsNan);
      if (!tested || *tested != guard[2] || scalar_constant(rw, guard[1]) != 0.0)
        return std::nullopt;
      nan_is_zero = true;
      p = guard[2];
    } else {
      break;
    }
  }
  const auto* softmax = rw.op<ir::Softmax>(p);
  if (!softmax || !is_last_axis(softmax->axis, rw.type(p).rank())) return std::nullopt;
  const ValueId operand = without_maximum(rw, rw.producer(p)->inputs[0]);
  if (!dropped) return SoftmaxMatch{operand, nullptr, nan_is_zero};
  const auto* joined = rw.op<ir::Concat>(operand);
  const std::vector<ValueId> parts = joined ? rw.producer(operand)->inputs : std::vector<ValueId>();
  if (parts.size() != 2 || !is_last_axis(joined->axis, rw.type(operand).rank()))
    return std::nullopt;
  const ir::ConstantPtr sinks = sinks_of(rw, parts[1]);
  return sinks ? std::optional(SoftmaxMatch{parts[0], sinks, nan_is_zero}) : std::nullopt;
}

}  // namespace llmc::passes

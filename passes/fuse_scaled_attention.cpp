#include <algorithm>
#include <cmath>
#include <set>

#include "passes/attention_scores.h"
#include "passes/fusions.h"

namespace llmc::passes {

namespace {

using ir::Dim;
using ir::ValueId;

struct Match {
  ir::ScaledAttention op;
  Scores scores;
};

/// Returns whether the product `last` is the only purpose of `from`: all its direct and indirect
/// users lead to it. Only its shape may have other uses.
bool only_leads_to(const Rewriter& rw, ValueId from, const ir::Node& last) {
  constexpr std::size_t kMaxValues = 32;
  std::vector<ValueId> values{from};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (rw.is_output(values[i]) || values.size() > kMaxValues) return false;
    for (const NodeIndex user : rw.users(values[i])) {
      const ir::Node& node = rw.node(user);
      if (&node == &last || std::holds_alternative<ir::Shape>(node.op)) continue;
      for (const ValueId result : node.outputs)
        if (std::ranges::find(values, result) == values.end()) values.push_back(result);
    }
  }
  return true;
}

/// Returns whether scores of dims `a` and `b` have the same queries, keys and batch dims, apart
/// from batch dims of 1.
bool same_scores(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  const auto batch = [](const std::vector<Dim>& dims) {
    std::vector<Dim> found;
    std::copy_if(dims.begin(), dims.end() - 2, std::back_inserter(found),
                 [](const Dim& dim) { return dim != Dim(1); });
    return found;
  };
  return a.size() >= 2 && b.size() >= 2 && std::equal(a.end() - 2, a.end(), b.end() - 2) &&
         batch(a) == batch(b);
}

/// Emits a view of `value` that is broadcast to scores of dims `to` as `value` is to `from`. `from`
/// and `to` must satisfy same_scores().
ValueId aligned(Rewriter& rw, ValueId value, const std::vector<Dim>& from,
                const std::vector<Dim>& to, NodeIndex anchor) {
  const std::size_t rank = rw.type(value).rank(), skipped = from.size() - rank;
  if (from == to || rank <= 2) return value;
  std::vector<std::int64_t> removed, added;
  for (std::size_t axis = skipped; axis + 2 < from.size(); ++axis)
    if (from[axis] == Dim(1)) removed.push_back(static_cast<std::int64_t>(axis - skipped));
  // Dims of 1 are added between the dims that remain, from the last one on.
  std::size_t batch = rank - 2 - removed.size(), axis = to.size() - 2;
  for (; batch > 0; --axis) {
    if (to[axis - 1] == Dim(1))
      added.push_back(static_cast<std::int64_t>(axis - 1));
    else
      --batch;
  }
  for (std::int64_t& at : added) at -= static_cast<std::int64_t>(axis);
  std::ranges::reverse(added);
  if (!removed.empty()) value = rw.emit(ir::Squeeze{removed}, {value}, anchor);
  if (!added.empty()) value = rw.emit(ir::Unsqueeze{added}, {value}, anchor);
  return value;
}

/// Returns whether common scores neither overflow nor underflow if they are multiplied by `factor`
/// earlier or later.
bool is_moderate(double factor) {
  return std::abs(factor) >= 1e-4 && std::abs(factor) <= 1e4;
}

/// Moves the moderate scalar factors of `value` into `scale`.
void take_factors(const Rewriter& rw, ValueId& value, double& scale) {
  constexpr int kMaxScoreFactors = 4;
  for (int i = 0; i < kMaxScoreFactors; ++i) {
    const auto factor = scalar_factor(rw, value);
    if (!factor || !is_moderate(factor->scalar)) return;
    scale *= factor->scalar;
    value = factor->value;
  }
}

std::optional<Match> match(const Rewriter& rw, const ir::Node& product) {
  const auto softmax = match_softmax(rw, product.inputs[0]);
  auto scores = softmax && !softmax->sinks ? match_scores(rw, softmax->scores) : std::nullopt;
  if (!scores || scores->bounded) return std::nullopt;
  for (const ValueId value : {scores->q, scores->k, product.inputs[1]})
    if (!is_f32(rw, value, 2) || ir::element_count(rw.type(value)) == 0) return std::nullopt;
  if (!only_leads_to(rw, scores->product, product)) return std::nullopt;

  const std::vector<Dim>& dims = rw.type(product.inputs[0]).dims;
  std::vector<ValueId> results{scores->product, softmax->scores};
  for (const Scores::Bias& bias : scores->biases) {
    if (!is_f32(rw, bias.value) || !is_moderate(bias.scale)) return std::nullopt;
    results.push_back(bias.result);
  }
  std::set<float> fills;
  for (const Scores::Condition& condition : scores->conditions) {
    if (condition.biases != 0) return std::nullopt;
    fills.insert(static_cast<float>(condition.fill * condition.scale));
    results.push_back(condition.result);
  }
  for (const ValueId result : results)
    if (!same_scores(rw.type(result).dims, dims)) return std::nullopt;
  if (fills.size() > 1 || fills.contains(0)) return std::nullopt;

  take_factors(rw, scores->q, scores->scale);
  take_factors(rw, scores->k, scores->scale);
  Match found{{.scale = static_cast<float>(scores->scale),
               .softcap = static_cast<float>(scores->softcap),
               .nan_is_zero = softmax->nan_is_zero},
              *std::move(scores)};
  if (!std::isnormal(found.op.scale)) return std::nullopt;
  if (!fills.empty()) found.op.fill = *fills.begin();
  if (found.scores.conditions.size() == 1) found.op.keeps = found.scores.conditions[0].seen;
  return found;
}

/// Emits the sum of all biases; kNoValue if there are none.
ValueId sum_of_biases(Rewriter& rw, const Scores& scores, const std::vector<Dim>& dims,
                      NodeIndex anchor) {
  ValueId sum = ir::kNoValue;
  for (std::size_t i = scores.biases.size(); i-- > 0;) {
    const Scores::Bias& bias = scores.biases[i];
    ValueId term = aligned(rw, bias.value, rw.type(bias.result).dims, dims, anchor);
    if (bias.scale != 1) {
      const ValueId factor =
          rw.emit_constant(ir::make_f32({}, {static_cast<float>(bias.scale)}), anchor);
      term = rw.emit(ir::Binary{ir::BinaryKind::kMul}, {term, factor}, anchor);
    }
    sum = sum.exists() ? rw.emit(ir::Binary{ir::BinaryKind::kAdd}, {sum, term}, anchor) : term;
  }
  return sum;
}

/// Emits the mask operand of ScaledAttention; kNoValue if there is none.
ValueId mask_of(Rewriter& rw, const Scores& scores, const std::vector<Dim>& dims,
                NodeIndex anchor) {
  ValueId all = ir::kNoValue;
  for (const Scores::Condition& condition : scores.conditions) {
    ValueId one = aligned(rw, condition.value, rw.type(condition.result).dims, dims, anchor);
    if (scores.conditions.size() == 1) return one;
    if (!condition.seen) one = rw.emit(ir::Unary{ir::UnaryKind::kNot}, {one}, anchor);
    all = all.exists() ? rw.emit(ir::Binary{ir::BinaryKind::kAnd}, {all, one}, anchor) : one;
  }
  return all;
}

}  // namespace

Result<ir::Graph> fuse_scaled_attention(ir::Graph graph, const PassContext&) {
  if (graph.is_decoder()) return graph;
  return rewrite_nodes<ir::MatMul>(std::move(graph), [](Rewriter& rw, NodeIndex i) {
    const auto found = match(rw, rw.node(i));
    if (!found) return;
    const ValueId p = rw.node(i).inputs[0], v = rw.node(i).inputs[1], y = rw.node(i).outputs[0];
    const std::vector<Dim> dims = rw.type(p).dims, product = rw.type(found->scores.product).dims;
    std::vector<ValueId> inputs{aligned(rw, found->scores.q, product, dims, i),
                                aligned(rw, found->scores.k, product, dims, i), v};
    const ValueId bias = sum_of_biases(rw, found->scores, dims, i);
    const ValueId mask = mask_of(rw, found->scores, dims, i);
    if (bias.exists() || mask.exists()) inputs.push_back(bias);
    if (mask.exists()) inputs.push_back(mask);
    rw.replace(y, rw.emit(found->op, std::move(inputs), i));
  });
}

}  // namespace llmc::passes

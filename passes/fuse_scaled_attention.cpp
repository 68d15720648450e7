#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "passes/attention_scores.h"
#include "passes/fusions.h"
#include "passes/index_analysis.h"

namespace llmc::passes {

namespace {

using ir::Dim;
using ir::ValueId;

struct Match {
  ir::ScaledAttention op;
  Scores scores;
  std::vector<Dim> dims;  // of the fused scores
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

/// Returns the batch dims of scores other than 1: all dims but the last two.
std::vector<Dim> batch_dims(const std::vector<Dim>& scores) {
  std::vector<Dim> found;
  std::copy_if(scores.begin(), scores.end() - 2, std::back_inserter(found),
               [](const Dim& dim) { return dim != Dim(1); });
  return found;
}

/// Returns whether scores of dims `a` and `b` have the same queries, keys and batch dims, apart
/// from batch dims of 1.
bool same_scores(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  return a.size() >= 2 && b.size() >= 2 && std::equal(a.end() - 2, a.end(), b.end() - 2) &&
         batch_dims(a) == batch_dims(b);
}

/// Returns whether scores of dims `merged` are those of dims `split` with one batch dim, the
/// product of theirs.
bool is_merged(const std::vector<Dim>& merged, const std::vector<Dim>& split) {
  if (merged.size() < 2 || split.size() < 2 ||
      !std::equal(merged.end() - 2, merged.end(), split.end() - 2))
    return false;
  std::optional<Dim> product(1);
  for (const Dim& dim : batch_dims(split)) product = product ? mul(*product, dim) : std::nullopt;
  const std::vector<Dim> batch = batch_dims(merged);
  return product && batch.size() == 1 && batch.front() == *product;
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

/// Emits `value` without its first dims, which must be 1, if it has more than `rank`.
ValueId with_rank(Rewriter& rw, ValueId value, std::size_t rank, NodeIndex anchor) {
  if (!value.exists() || rw.type(value).rank() <= rank) return value;
  std::vector<std::int64_t> first(rw.type(value).rank() - rank);
  std::iota(first.begin(), first.end(), 0);
  return rw.emit(ir::Squeeze{first}, {value}, anchor);
}

/// Emits a Reshape of `value` to the sizes `batch` and its own last two dims.
ValueId with_batch(Rewriter& rw, ValueId value, ValueId batch, NodeIndex anchor) {
  const auto rank = static_cast<std::int64_t>(rw.type(value).rank());
  const ValueId last = rw.emit(ir::Shape{rank - 2, rank}, {value}, anchor);
  const ValueId sizes = rw.emit(ir::Concat{0}, {batch, last}, anchor);
  return rw.emit(ir::Reshape{}, {value, sizes}, anchor);
}

/// Emits a view of `value`, whose batch dims are one dim or all 1, with the batch dims of scores of
/// dims `split`. `like` has these batch dims. Returns kNoValue if it does not exist, but is needed.
ValueId with_split_batch(Rewriter& rw, ValueId value, const std::vector<Dim>& split, ValueId like,
                         NodeIndex anchor) {
  const std::vector<Dim> own = rw.type(value).dims;
  if (own.size() <= 2 || batch_dims(own).empty()) return with_rank(rw, value, 2, anchor);
  std::vector<Dim> dims(split.begin(), split.end() - 2);
  dims.insert(dims.end(), own.end() - 2, own.end());
  const ValueId before = rw.op<ir::Reshape>(value) ? rw.producer(value)->inputs[0] : ir::kNoValue;
  if (before.exists() && rw.type(before).dims == dims) return before;
  const ValueId result = emit_reshape(rw, value, dims, anchor);
  if (result.exists() || !like.exists()) return result;
  const auto batch = static_cast<std::int64_t>(split.size()) - 2;
  return with_batch(rw, value, rw.emit(ir::Shape{0, batch}, {like}, anchor), anchor);
}

/// Emits a view of `value` with the dims of `as`. Either both have the same dims except for dims of
/// 1, or they have the same last two dims and `as` has one batch dim other than 1.
ValueId with_dims_of(Rewriter& rw, ValueId value, ValueId as, NodeIndex anchor) {
  const std::vector<Dim> from = rw.type(value).dims, dims = rw.type(as).dims;
  if (from == dims) return value;
  if (without_ones(from) == without_ones(dims)) {
    std::vector<std::int64_t> removed, added;
    for (std::size_t axis = 0; axis < from.size(); ++axis)
      if (from[axis] == Dim(1)) removed.push_back(static_cast<std::int64_t>(axis));
    for (std::size_t axis = 0; axis < dims.size(); ++axis)
      if (dims[axis] == Dim(1)) added.push_back(static_cast<std::int64_t>(axis));
    if (!removed.empty()) value = rw.emit(ir::Squeeze{removed}, {value}, anchor);
    return added.empty() ? value : rw.emit(ir::Unsqueeze{added}, {value}, anchor);
  }
  if (const ValueId result = emit_reshape(rw, value, dims, anchor); result.exists()) return result;
  std::vector<std::int64_t> batch(dims.size() - 2, 1);
  for (std::size_t axis = 0; axis < batch.size(); ++axis)
    if (dims[axis] != Dim(1)) batch[axis] = -1;
  return with_batch(rw, value, emit_integers(rw, std::move(batch), anchor), anchor);
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

/// Returns whether `value`, which is broadcast to `scores`, is also broadcast to fused scores of
/// dims `split`, of which `scores` may be merged ones: its batch dims are those of `scores` or
/// all 1.
bool can_split(const Rewriter& rw, ValueId value, ValueId scores, const std::vector<Dim>& split) {
  const std::vector<Dim>&from = rw.type(scores).dims, &own = rw.type(value).dims;
  if (same_scores(from, split)) return true;
  return own.size() < 2 || batch_dims(own).empty() || batch_dims(own) == batch_dims(from);
}

/// Returns whether all operands can be views for fused scores of dims `split`, and q gives the
/// sizes of their batch dims.
bool can_split(const Rewriter& rw, const Scores& scores, const ir::Node& product,
               const std::vector<Dim>& split) {
  const ValueId p = product.inputs[0], y = product.outputs[0];
  const auto same_batch = [&](ValueId a, ValueId b) {
    return batch_dims(rw.type(a).dims) == batch_dims(rw.type(b).dims);
  };
  const auto fits = [&](const auto& term) { return can_split(rw, term.value, term.result, split); };
  return batch_dims(split).size() + 2 == split.size() && same_batch(scores.q, scores.product) &&
         same_batch(y, p) && can_split(rw, scores.k, scores.product, split) &&
         can_split(rw, product.inputs[1], p, split) && std::ranges::all_of(scores.biases, fits) &&
         std::ranges::all_of(scores.conditions, fits);
}

std::optional<Match> match(const Rewriter& rw, const ir::Node& product) {
  const auto softmax = match_softmax(rw, product.inputs[0], ScoreViews::kAnyBatch);
  auto scores = softmax && !softmax->sinks
                    ? match_scores(rw, softmax->scores, ScoreViews::kAnyBatch)
                    : std::nullopt;
  if (!scores || scores->bounded) return std::nullopt;
  for (const ValueId value : {scores->q, scores->k, product.inputs[1]})
    if (!is_f32(rw, value, 2) || ir::element_count(rw.type(value)) == 0) return std::nullopt;
  if (!only_leads_to(rw, scores->product, product)) return std::nullopt;

  std::vector<ValueId> results{product.inputs[0], scores->product, softmax->scores};
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
  std::vector<Dim> dims = rw.type(results.front()).dims;
  for (const ValueId result : results)
    if (const auto& split = rw.type(result).dims;
        is_merged(dims, split) && !same_scores(dims, split))
      dims = split;
  const auto is_same = [&](ValueId result) { return same_scores(rw.type(result).dims, dims); };
  for (const ValueId result : results)
    if (!is_same(result) && !is_merged(rw.type(result).dims, dims)) return std::nullopt;
  if (!std::ranges::all_of(results, is_same) && !can_split(rw, *scores, product, dims))
    return std::nullopt;
  if (fills.size() > 1 || fills.contains(0)) return std::nullopt;

  IndexAnalysis indices(rw);
  std::erase_if(scores->biases, [&](const Scores::Bias& bias) {  // masks that hide nothing
    return indices.always_false(bias.value);
  });
  take_factors(rw, scores->q, scores->scale);
  take_factors(rw, scores->k, scores->scale);
  Match found{{.scale = static_cast<float>(scores->scale),
               .softcap = static_cast<float>(scores->softcap),
               .nan_is_zero = softmax->nan_is_zero},
              *std::move(scores),
              std::move(dims)};
  if (!std::isnormal(found.op.scale)) return std::nullopt;
  if (!fills.empty()) found.op.fill = *fills.begin();
  if (found.scores.conditions.size() == 1) found.op.keeps = found.scores.conditions[0].seen;
  return found;
}

/// Emits the sum of all biases; kNoValue if there are none.
template <class ViewOf>
ValueId sum_of_biases(Rewriter& rw, const Scores& scores, const ViewOf& view_of, NodeIndex anchor) {
  ValueId sum = ir::kNoValue;
  for (std::size_t i = scores.biases.size(); i-- > 0;) {
    const Scores::Bias& bias = scores.biases[i];
    ValueId term = view_of(bias.value, bias.result);
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
template <class ViewOf>
ValueId mask_of(Rewriter& rw, const Scores& scores, const ViewOf& view_of, NodeIndex anchor) {
  ValueId all = ir::kNoValue;
  for (const Scores::Condition& condition : scores.conditions) {
    ValueId one = view_of(condition.value, condition.result);
    if (scores.conditions.size() == 1) return one;
    if (!condition.seen) one = rw.emit(ir::Unary{ir::UnaryKind::kNot}, {one}, anchor);
    all = all.exists() ? rw.emit(ir::Binary{ir::BinaryKind::kAnd}, {all, one}, anchor) : one;
  }
  return all;
}

}  // namespace

Result<ir::Graph> fuse_scaled_attention(ir::Graph graph, const PassContext&) {
  return rewrite_nodes<ir::MatMul>(std::move(graph), [](Rewriter& rw, NodeIndex i) {
    const auto found = match(rw, rw.node(i));
    if (!found) return;
    const ValueId p = rw.node(i).inputs[0], v = rw.node(i).inputs[1], y = rw.node(i).outputs[0];
    const std::vector<Dim>& dims = found->dims;
    ValueId q = ir::kNoValue;
    // Returns `value`, which is broadcast to `scores`, as a view that is broadcast to the fused
    // ones.
    const auto view_of = [&](ValueId value, ValueId scores) {
      const std::vector<Dim> from = rw.type(scores).dims;
      return same_scores(from, dims) ? aligned(rw, value, from, dims, i)
                                     : with_split_batch(rw, value, dims, q, i);
    };
    q = view_of(found->scores.q, found->scores.product);
    if (!q.exists()) return;
    std::vector<ValueId> inputs{q, view_of(found->scores.k, found->scores.product), view_of(v, p)};
    const std::size_t rank = std::max(rw.type(inputs[0]).rank(), rw.type(inputs[1]).rank());
    const ValueId bias = with_rank(rw, sum_of_biases(rw, found->scores, view_of, i), rank, i);
    const ValueId mask = with_rank(rw, mask_of(rw, found->scores, view_of, i), rank, i);
    if (bias.exists() || mask.exists()) inputs.push_back(bias);
    if (mask.exists()) inputs.push_back(mask);
    const ValueId result = rw.emit(found->op, std::move(inputs), i);
    rw.replace(y, with_dims_of(rw, result, y, i));
  });
}

}  // namespace llmc::passes

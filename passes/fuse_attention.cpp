#include "passes/fuse_attention.h"

#include <cmath>

#include "passes/attention_axes.h"
#include "passes/causal_mask.h"

namespace llmc::passes {

namespace {

using ir::BinaryKind;
using ir::Dim;
using ir::ValueId;

const std::vector<std::int64_t> kSwapHeadsAndTokens{0, 2, 1, 3};

struct Scores {
  ValueId q, k;  // operands of the product
  double scale = 1;
  ValueId bias, condition;  // at most one exists
  bool condition_hides = false;
};

/// scale * matmul(q, k), with a bias added or a condition choosing between it and a large negative.
std::optional<Scores> match_scores(const Rewriter& rw, ValueId value) {
  Scores scores;
  if (const auto sum = binary(rw, value, BinaryKind::kAdd)) {
    // The scores are the side with a dim of heads; the mask is the same for all heads.
    const auto is_product = [&](ValueId v) {
      while (true) {
        if (rw.op<ir::MatMul>(v)) return true;
        auto next = with_scalar(rw, v, BinaryKind::kMul);
        if (!next) next = with_scalar(rw, v, BinaryKind::kDiv);
        if (!next) return false;
        v = next->value;
      }
    };
    const bool left = is_product(sum->left);
    scores.bias = left ? sum->right : sum->left;
    if (rw.type(left ? sum->left : sum->right) != rw.type(value)) return std::nullopt;
    value = left ? sum->left : sum->right;
  } else if (rw.op<ir::Where>(value)) {
    const std::vector<ValueId> inputs = rw.producer(value)->inputs;
    const auto yes = scalar_constant(rw, inputs[1]), no = scalar_constant(rw, inputs[2]);
    constexpr double kHidden = -1e4;
    scores.condition = inputs[0];
    scores.condition_hides = yes.has_value();
    if (yes.has_value() == no.has_value() || !(yes.value_or(0) + no.value_or(0) <= kHidden))
      return std::nullopt;
    const ValueId kept = yes ? inputs[2] : inputs[1];
    if (rw.type(kept) != rw.type(value)) return std::nullopt;
    value = kept;
  }
  while (!rw.op<ir::MatMul>(value)) {
    if (const auto factor = with_scalar(rw, value, BinaryKind::kMul)) {
      scores.scale *= factor->scalar;
      value = factor->value;
    } else if (const auto divisor = with_scalar(rw, value, BinaryKind::kDiv)) {
      scores.scale /= divisor->scalar;
      value = divisor->value;
    } else {
      return std::nullopt;
    }
  }
  const ir::Node& product = *rw.producer(value);
  scores.q = product.inputs[0];
  scores.k = product.inputs[1];
  return scores;
}

/// past[index] of a cache [2, 1, …]: the cache and the index.
struct Half {
  ValueId cache;
  std::int64_t index = 0;
};
std::optional<Half> match_half(const Rewriter& rw, ValueId value) {
  const auto fits = [&](ValueId cache, std::int64_t index) -> std::optional<Half> {
    const auto& whole = rw.type(cache).dims;
    const std::vector<Dim>& part = rw.type(value).dims;
    if (whole.size() != 5 || whole[0] != Dim(2) || index < 0 || index > 1) return std::nullopt;
    if (std::vector<Dim>(whole.begin() + 1, whole.end()) != part) return std::nullopt;
    return Half{cache, index};
  };
  const ir::Node* node = rw.producer(value);
  if (const auto* gather = ir::op_as<ir::Gather>(node)) {
    const auto index = integer_constant(rw, node->inputs[1]);
    if (gather->axis != 0 || !index || rw.type(node->inputs[1]).rank() != 0) return std::nullopt;
    return fits(node->inputs[0], index->at(0) < 0 ? index->at(0) + 2 : index->at(0));
  }
  const ValueId cut = strip_views(rw, value);
  node = rw.producer(cut);
  if (const auto* split = ir::op_as<ir::Split>(node))
    return split->axis == 0 && rw.type(cut).rank() == 5
               ? fits(node->inputs[0], static_cast<std::int64_t>(rw.slot(cut)))
               : std::nullopt;
  if (ir::op_as<ir::Slice>(node) && rw.type(cut).rank() == 5) {
    const auto starts = integer_constant(rw, node->inputs[1]);
    const auto axes = node->inputs.size() > 3 && node->inputs[3].exists()
                          ? integer_constant(rw, node->inputs[3])
                          : std::vector<std::int64_t>{0};
    if (!starts || starts->size() != 1 || axes != std::vector<std::int64_t>{0}) return std::nullopt;
    if (rw.type(cut).dims[0] != Dim(1)) return std::nullopt;
    return fits(node->inputs[0], (*starts)[0] < 0 ? (*starts)[0] + 2 : (*starts)[0]);
  }
  return std::nullopt;
}

/// Keys or values: all of them, the new ones, and the cache the others come from.
struct Cached {
  Traced traced;  // value: the concatenation
  ValueId fresh, cache;
  std::int64_t half = 0;
  ir::CacheLayout layout = ir::CacheLayout::kSequenceFirst;
  std::int64_t heads = 0, dim = 0;
};

std::optional<Cached> match_cached(const Rewriter& rw, ValueId value, std::vector<Axis> axes) {
  if (rw.type(value).rank() != 4 || !is_f32(rw, value)) return std::nullopt;
  Cached cached{{value, label(rw.type(value).dims, std::move(axes)), 1, 1}, {}, {}, 0, {}, 0, 0};
  while (!rw.op<ir::Concat>(cached.traced.value))
    if (!trace_up(rw, cached.traced)) return std::nullopt;
  const ir::Node& concat = *rw.producer(cached.traced.value);
  const auto order = four_axes(rw, cached.traced);
  if (!order || concat.inputs.size() != 2) return std::nullopt;
  const std::size_t tokens = *order == kSequenceFirstAxes ? 1 : 2;
  cached.layout = tokens == 1 ? ir::CacheLayout::kSequenceFirst : ir::CacheLayout::kHeadsFirst;
  if (std::get<ir::Concat>(concat.op).axis != static_cast<std::int64_t>(tokens))
    return std::nullopt;
  const auto& dims = rw.type(cached.traced.value).dims;
  const auto heads = dims[3 - tokens].constant(), dim = dims[3].constant();
  const auto half = match_half(rw, concat.inputs[0]);
  if (!heads || !dim || *dim < 2 || !half) return std::nullopt;
  cached.heads = *heads;
  cached.dim = *dim;
  cached.fresh = concat.inputs[1];
  cached.cache = half->cache;
  cached.half = half->index;
  return cached;
}

/// The concatenation of both halves on a new first axis, if some node makes it.
ValueId find_present(const Rewriter& rw, ValueId keys, ValueId values) {
  const auto raised = [&](ValueId from, ValueId to) {
    const auto& a = rw.type(from).dims;
    const auto& b = rw.type(to).dims;
    return strip_views(rw, to) == strip_views(rw, from) && b.size() == 5 && b[0] == Dim(1) &&
           std::equal(a.begin(), a.end(), b.begin() + 1, b.end());
  };
  for (NodeIndex view : rw.users(keys)) {
    const ValueId first = rw.node(view).outputs.at(0);
    if (!raised(keys, first)) continue;
    for (NodeIndex user : rw.users(first)) {
      const ir::Node& node = rw.node(user);
      const auto* concat = std::get_if<ir::Concat>(&node.op);
      if (concat && concat->axis == 0 && node.inputs.size() == 2 && node.inputs[0] == first &&
          raised(values, node.inputs[1]))
        return node.outputs[0];
    }
  }
  return ir::kNoValue;
}

struct Match {
  ir::Attention op;
  ValueId q, k, v, past, present;
  bool q_heads_first = false;
  ValueId mask;
};

/// Queries as the projection makes them, [1, S, heads, D] when the graph has them so.
void match_queries(const Rewriter& rw, ValueId value, Match& match, double& scale) {
  Traced traced{value, label(rw.type(value).dims, kHeadsFirstAxes), 1, 1};
  match.q = value;
  match.q_heads_first = true;
  scale = 1;
  do {
    const auto order = four_axes(rw, traced);
    if (!order || traced.repeats != 1) continue;
    match.q = traced.value;
    match.q_heads_first = *order == kHeadsFirstAxes;
    scale = traced.scale;
  } while (trace_up(rw, traced));
}

std::optional<Match> match_attention(const Rewriter& rw, ValueId probabilities, ValueId values,
                                     const Scores& scores) {
  if (rw.type(scores.q).rank() != 4 || rw.type(scores.k).rank() != 4) return std::nullopt;
  const auto keys =
      match_cached(rw, scores.k, {Axis::kUnit, Axis::kHeads, Axis::kDim, Axis::kTokens});
  const auto vals = match_cached(rw, values, kHeadsFirstAxes);
  if (!keys || !vals || keys->half != 0 || vals->half != 1 || keys->cache != vals->cache ||
      keys->layout != vals->layout || keys->heads != vals->heads || keys->dim != vals->dim ||
      vals->traced.scale != 1)
    return std::nullopt;

  const auto& q = rw.type(scores.q).dims;  // [1, heads, S, D]
  const auto heads = q[1].constant();
  if (!is_f32(rw, scores.q) || q[0] != Dim(1) || !heads || q[3] != Dim(keys->dim))
    return std::nullopt;
  // Each kv head serves heads / kv_heads queries in a row; a single one serves all by broadcast.
  for (const auto& side : {*keys, *vals}) {
    const std::int64_t repeats =
        side.heads == 1 && side.traced.repeats == 1 ? *heads : side.traced.repeats;
    if (side.heads <= 0 || *heads % side.heads != 0 || *heads / side.heads != repeats)
      return std::nullopt;
  }
  const auto& cache = rw.type(keys->cache).dims;  // [2, 1, …]
  const std::size_t tokens = keys->layout == ir::CacheLayout::kSequenceFirst ? 1 : 2;
  const MaskShape shape{q[2], cache[tokens + 1], rw.type(keys->traced.value).dims[tokens]};
  if (ir::add(shape.queries, shape.past) != shape.keys) return std::nullopt;
  const std::vector<Dim> all{1, Dim(*heads), shape.queries, shape.keys};
  if (rw.type(probabilities).dims != all) return std::nullopt;

  Match match;
  const bool causal = scores.bias.exists() ? is_causal_bias(rw, scores.bias, shape)
                      : scores.condition.exists()
                          ? is_causal_condition(rw, scores.condition, shape, scores.condition_hides)
                          : shape.queries == Dim(1);
  if (!causal) return std::nullopt;
  if (scores.bias.exists()) match.mask = strip_views(rw, scores.bias);

  double q_scale = 1;
  match_queries(rw, scores.q, match, q_scale);
  const double scale = scores.scale * q_scale * keys->traced.scale;
  if (!std::isfinite(scale) || !std::isfinite(static_cast<float>(scale))) return std::nullopt;
  match.op.heads = *heads;
  match.op.kv_heads = keys->heads;
  match.op.head_dim = keys->dim;
  match.op.scale = static_cast<float>(scale);
  match.op.cache_layout = keys->layout;
  match.k = keys->fresh;
  match.v = vals->fresh;
  match.past = keys->cache;
  match.present = find_present(rw, keys->traced.value, vals->traced.value);
  return match;
}

void rewrite(Rewriter& rw, const Match& match, ValueId result, NodeIndex anchor) {
  const auto rows = [&](ValueId value, bool heads_first) {
    return heads_first ? rw.emit(ir::Transpose{kSwapHeadsAndTokens}, {value}, anchor) : value;
  };
  const bool heads_first = match.op.cache_layout == ir::CacheLayout::kHeadsFirst;
  const ValueId q = rows(match.q, match.q_heads_first);
  const ValueId k = rows(match.k, heads_first), v = rows(match.v, heads_first);
  const auto outputs = rw.emit_all(match.op, {q, k, v, match.past}, anchor);
  const std::vector<Dim> dims = rw.type(q).dims;
  const ValueId by_head = emit_reshape(rw, outputs[0], dims, anchor);
  if (!by_head.exists()) return;
  rw.replace(result, rw.emit(ir::Transpose{kSwapHeadsAndTokens}, {by_head}, anchor));
  if (match.present.exists()) rw.replace(match.present, outputs[1]);
  if (match.mask.exists()) rw.drop_input_if_unused(match.mask);
}

}  // namespace

Result<ir::Graph> fuse_attention(ir::Graph graph, const PassContext&) {
  Rewriter rw(std::move(graph));
  for (NodeIndex i = 0; i < rw.size(); ++i) {
    if (!rw.alive(i) || !std::holds_alternative<ir::MatMul>(rw.node(i).op)) continue;
    const ir::Node& node = rw.node(i);
    ValueId p = node.inputs[0];
    if (rw.op<ir::Where>(p)) {  // where(is_nan(p), 0, p): causal rows always see a key
      const std::vector<ValueId> guard = rw.producer(p)->inputs;
      const auto tested = unary(rw, guard[0], ir::UnaryKind::kIsNan);
      if (!tested || *tested != guard[2] || scalar_constant(rw, guard[1]) != 0.0) continue;
      p = guard[2];
    }
    const auto* softmax = rw.op<ir::Softmax>(p);
    if (!softmax || !is_last_axis(softmax->axis, rw.type(p).rank())) continue;
    const auto scores = match_scores(rw, rw.producer(p)->inputs[0]);
    if (!scores) continue;
    if (const auto match = match_attention(rw, p, node.inputs[1], *scores))
      rewrite(rw, *match, node.outputs[0], i);
  }
  return std::move(rw).finish();
}

}  // namespace llmc::passes

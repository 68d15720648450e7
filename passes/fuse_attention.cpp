#include <cmath>
#include <map>
#include <span>

#include "passes/attention_axes.h"
#include "passes/attention_scores.h"
#include "passes/fusions.h"
#include "passes/mask_analysis.h"
#include "passes/position_bias.h"

namespace llmc::passes {

namespace {

using ir::BinaryKind;
using ir::Dim;
using ir::ValueId;

/// Returns the operand of a slice that keeps the first elements of each head; otherwise `value`.
ValueId whole_heads(const Rewriter& rw, ValueId value) {
  if (!rw.op<ir::Slice>(value)) return value;
  const auto maps = index_maps(rw, *rw.producer(value));
  if (maps.size() != 1) return value;
  for (std::size_t a = 0; a < maps[0].axes.size(); ++a)
    if (maps[0].axes[a].result_axis() != a) return value;
  const ValueId whole = rw.producer(value)->inputs[0];
  const auto& from = rw.type(whole).dims;
  const auto& to = rw.type(value).dims;
  return std::equal(to.begin(), to.end() - 1, from.begin()) ? whole : value;
}

/// All keys or values: the concatenation of cached and new ones. Also the cache.
struct Cached {
  Traced traced;  // the concatenation and its axes
  ValueId fresh, cache;
  std::int64_t half = 0;
  bool heads_first = false;  // layout of the concatenation
  bool swapped = false;  // whether the layout of the cache differs from that of the concatenation
  std::int64_t heads = 0, dim = 0;  // narrower than or as wide as the heads of the cache
};

std::optional<Cached> match_cached(const Rewriter& rw, ValueId value, std::vector<Axis> axes) {
  if (!is_f32(rw, value) || rw.type(value).rank() != axes.size()) return std::nullopt;
  Cached cached{
      {value, label(rw.type(value).dims, std::move(axes)), 1, 1}, {}, {}, 0, false, false, 0, 0};
  while (!rw.op<ir::Concat>(cached.traced.value))
    if (!trace_up(rw, cached.traced)) return std::nullopt;
  const ir::Node& concat = *rw.producer(cached.traced.value);
  const auto order = four_axes(rw, cached.traced);
  if (!order || concat.inputs.size() != 2) return std::nullopt;
  const std::size_t tokens = *order == kSequenceFirstAxes ? 1 : 2;
  cached.heads_first = tokens == 2;
  if (std::get<ir::Concat>(concat.op).axis != static_cast<std::int64_t>(tokens))
    return std::nullopt;
  const auto& dims = rw.type(cached.traced.value).dims;
  const auto heads = dims[3 - tokens].constant(), dim = dims[3].constant();
  const auto cache_half = [&](ValueId past) {
    const ValueId whole = whole_heads(rw, past);
    return match_half(rw, whole, rw.type(whole).dims);
  };
  auto half = cache_half(concat.inputs[0]);
  if (!half) {
    const auto* turned = rw.op<ir::Transpose>(concat.inputs[0]);
    if (turned && turned->perm == kSwapHeadsAndTokens)
      half = cache_half(rw.producer(concat.inputs[0])->inputs[0]);
    cached.swapped = true;
  }
  if (!heads || !dim || *dim < 2 || !half) return std::nullopt;
  cached.heads = *heads;
  cached.dim = *dim;
  cached.fresh = concat.inputs[1];
  cached.cache = half->whole;
  cached.half = half->index;
  return cached;
}

/// Returns the transpose of `value` that swaps heads and tokens, or kNoValue.
ValueId find_transposed(const Rewriter& rw, ValueId value) {
  for (NodeIndex user : rw.users(value)) {
    const auto* transpose = std::get_if<ir::Transpose>(&rw.node(user).op);
    if (transpose && transpose->perm == kSwapHeadsAndTokens) return rw.node(user).outputs[0];
  }
  return ir::kNoValue;
}

/// Returns the result of a Pad of the heads of `value` to `width` elements, or `value` if they have
/// this width; kNoValue if there is no such Pad.
ValueId find_padded(const Rewriter& rw, ValueId value, std::int64_t width) {
  const auto dim = last_dim(rw, value);
  if (!dim || *dim == width) return value;
  std::vector<std::int64_t> pads(2 * rw.type(value).rank(), 0);
  pads.back() = width - *dim;
  for (NodeIndex user : rw.users(value)) {
    const ir::Node& node = rw.node(user);
    const auto* pad = std::get_if<ir::Pad>(&node.op);
    if (pad && pad->mode == ir::PadMode::kConstant && node.inputs[0] == value &&
        node.inputs.size() == 2 && integer_constant(rw, node.inputs[1]) == pads)
      return node.outputs[0];
  }
  return ir::kNoValue;
}

/// Returns the concatenation of both halves on a new first axis, or kNoValue.
ValueId find_present(const Rewriter& rw, ValueId keys, ValueId values, bool swapped,
                     std::int64_t width) {
  if (swapped) {
    keys = find_transposed(rw, keys);
    values = find_transposed(rw, values);
    if (!keys.exists() || !values.exists()) return ir::kNoValue;
  }
  keys = find_padded(rw, keys, width);
  values = find_padded(rw, values, width);
  if (!keys.exists() || !values.exists()) return ir::kNoValue;
  const auto is_unsqueezed = [&](ValueId from, ValueId to) {
    const auto& a = rw.type(from).dims;
    const auto& b = rw.type(to).dims;
    return strip_views(rw, to) == strip_views(rw, from) && b.size() == 5 && b[0] == Dim(1) &&
           std::equal(a.begin(), a.end(), b.begin() + 1, b.end());
  };
  for (NodeIndex view : rw.users(keys)) {
    const ValueId first = rw.node(view).outputs.at(0);
    if (!is_unsqueezed(keys, first)) continue;
    for (NodeIndex user : rw.users(first)) {
      const ir::Node& node = rw.node(user);
      const auto* concat = std::get_if<ir::Concat>(&node.op);
      if (concat && concat->axis == 0 && node.inputs.size() == 2 && node.inputs[0] == first &&
          is_unsqueezed(values, node.inputs[1]))
        return node.outputs[0];
    }
  }
  return ir::kNoValue;
}

struct AttentionMatch {
  ir::Attention op;
  ValueId q, k, v, past, present;
  bool q_heads_first = false, k_heads_first = false, v_heads_first = false;
  std::int64_t value_dim = 0;  // elements of a head of v; op.head_dim is the width of the cache
  ir::ConstantPtr sinks;
  std::vector<std::pair<ValueId, double>> bias;  // terms that are not masks, with their factors
};

/// Splits an added bias into terms. Calls `add` with the band of each mask, and appends the other
/// terms to `others`. `splits` counts the splits. Their number is limited, because nested sums of
/// the same value would take exponential time.
template <class Add>
void split_terms(const Rewriter& rw, MaskAnalysis& masks, const Scores::Bias& bias, Add add,
                 std::vector<Scores::Bias>& others, int& splits) {
  constexpr int kMaxSplits = 32;
  const auto band = masks.bias(bias.value);
  const auto sum = binary(rw, bias.value, BinaryKind::kAdd);
  const auto masked = band ? std::nullopt : match_replaced(rw, bias.value);
  if (band) {
    add(band);
  } else if (masked && masked->condition.hides() && splits < kMaxSplits) {
    ++splits;
    add(masks.condition(masked->condition.value, masked->condition.seen));
    split_terms(rw, masks, {masked->kept, bias.scale, bias.result}, add, others, splits);
  } else if (sum && splits < kMaxSplits) {
    ++splits;
    split_terms(rw, masks, {sum->left, bias.scale, bias.result}, add, others, splits);
    split_terms(rw, masks, {sum->right, bias.scale, bias.result}, add, others, splits);
  } else {
    others.push_back(bias);
  }
}

/// The visible keys, as Attention::window and Attention::chunked.
struct Window {
  std::int64_t tokens = 0;
  bool chunked = false;
};

/// Returns nullopt if the combined masks are not causal. Appends the terms that are not masks to
/// `others`.
std::optional<Window> match_window(const Rewriter& rw, IndexAnalysis& indices, const Scores& scores,
                                   const MaskShape& shape, std::vector<Scores::Bias>& others) {
  MaskAnalysis masks(rw, indices, shape);
  std::optional<Band> band = Band{};
  const auto add = [&](const std::optional<Band>& next) {
    band = band && next ? intersection(*band, *next) : std::nullopt;
  };
  int splits = 0;
  for (const Scores::Bias& bias : scores.biases) split_terms(rw, masks, bias, add, others, splits);
  for (const auto& condition : scores.conditions)
    add(condition.hides() ? masks.condition(condition.value, condition.seen) : std::nullopt);
  if (!band) return std::nullopt;
  // A single query may attend to all keys, because the last one is its own.
  if (!(band->upper == shape.past) && !(shape.queries == Dim(1) && !band->upper))
    return std::nullopt;
  if (const auto& chunks = band->chunks) {
    // Chunks begin at multiples of their size. A window within them is not supported.
    const auto first = chunks->first_key.constant();
    if (band->lower || !first || *first % chunks->size != 0 || chunks->size >= INT32_MAX ||
        ir::sub(chunks->first_query, chunks->first_key) != shape.past)
      return std::nullopt;
    return Window{chunks->size, true};
  }
  if (!band->lower) return Window{};
  const auto span = ir::sub(shape.past, *band->lower);
  const auto last = span ? span->constant() : std::nullopt;
  if (!last || *last < 0 || *last >= INT32_MAX) return std::nullopt;
  return Window{*last + 1, false};
}

/// The position bias of each attention as a table f32[heads, keys]. Layers with the same terms
/// share one table.
class BiasTables {
 public:
  /// `count`: number of keys.
  explicit BiasTables(std::int64_t count) : count_(count) {}

  /// Finds the table of `terms`, which may be empty, and what it depends on; sets both in `match`.
  /// Returns false if the terms depend on neither the distance alone nor the key alone, or cannot
  /// be evaluated.
  bool find(const Rewriter& rw, IndexAnalysis& indices, const MaskShape& shape,
            std::span<const Scores::Bias> terms, AttentionMatch& match) {
    if (terms.empty()) return true;
    PositionBias analysis(rw, indices, shape);
    std::optional<BiasIndex> index = BiasIndex::kNothing;
    for (const Scores::Bias& term : terms) {
      index = combined(index, analysis.find(term.value));
      if (!index) return false;
      match.bias.emplace_back(term.value, term.scale);
    }
    match.op.bias_by_key = *index == BiasIndex::kKey;
    Table& table = tables_[match.bias];
    if (table.data) return true;
    reference::Tensor sum = reference::zeros(ir::ElementType::kF32, {match.op.heads, count_});
    for (const Scores::Bias& term : terms) {
      const auto found = analysis.table(term.value, match.op.heads, count_);
      if (!found) return false;
      for (std::size_t i = 0; i < sum.floats.size(); ++i)
        sum.floats[i] += static_cast<float>(term.scale) * found->floats[i];
    }
    table.data = reference::to_constant(sum);
    return true;
  }
  /// Returns the constant of a match; kNoValue without terms.
  ValueId emit(Rewriter& rw, const AttentionMatch& match, NodeIndex anchor) {
    if (match.bias.empty()) return ir::kNoValue;
    Table& table = tables_.at(match.bias);
    if (!table.value.exists()) table.value = rw.emit_constant(table.data, anchor, "position_bias");
    return table.value;
  }

 private:
  struct Table {
    ir::ConstantPtr data;
    ValueId value;
  };
  std::int64_t count_;
  std::map<std::vector<std::pair<ValueId, double>>, Table> tables_;
};

std::optional<AttentionMatch> match_attention(const Rewriter& rw, IndexAnalysis& indices,
                                              BiasTables& tables, ValueId probabilities,
                                              ValueId values, const Scores& scores) {
  const std::size_t rank = rw.type(scores.q).rank();
  const std::size_t value_rank = rw.type(values).rank();
  if (rank < 3 || rank > 5 || rw.type(scores.k).rank() != rank || value_rank < 3 || value_rank > 5)
    return std::nullopt;
  const auto keys = match_cached(rw, scores.k, operand_axes(rank, Axis::kDim, Axis::kTokens));
  const auto vals = match_cached(rw, values, operand_axes(value_rank, Axis::kTokens, Axis::kDim));
  if (!keys || !vals || keys->half != 0 || vals->half != 1 || keys->cache != vals->cache ||
      keys->heads_first != vals->heads_first || keys->swapped != vals->swapped ||
      keys->heads != vals->heads || vals->traced.scale != 1)
    return std::nullopt;

  AttentionMatch match;
  const auto queries_found = is_f32(rw, scores.q) ? trace_queries(rw, scores.q) : std::nullopt;
  if (!queries_found) return std::nullopt;
  match.q = queries_found->value;
  match.q_heads_first = queries_found->heads_first;
  const double q_scale = queries_found->scale;
  const auto& q = rw.type(match.q).dims;
  const Dim queries = q[match.q_heads_first ? 2 : 1];
  const auto heads = q[match.q_heads_first ? 1 : 2].constant();
  if (!heads || q[3] != Dim(keys->dim)) return std::nullopt;
  // Each kv head is used by heads / kv_heads consecutive query heads. A single kv head is
  // broadcast, and so are kv heads with a group axis.
  for (const auto& [side, side_rank] : {std::pair(*keys, rank), std::pair(*vals, value_rank)}) {
    if (side.heads <= 0 || *heads % side.heads != 0) return std::nullopt;
    const std::int64_t group = *heads / side.heads;
    const bool broadcast = side.traced.repeats == 1 && (side.heads == 1 || side_rank == 5);
    if (!broadcast && group != side.traced.repeats) return std::nullopt;
  }
  const bool cache_heads_first = keys->heads_first != keys->swapped;
  const auto& cache = rw.type(keys->cache).dims;  // [2, 1, …]
  const MaskShape shape{queries, cache[cache_heads_first ? 3 : 2],
                        rw.type(keys->traced.value).dims[keys->heads_first ? 2 : 1]};
  if (ir::add(shape.queries, shape.past) != shape.keys || !cache[4].is_constant())
    return std::nullopt;
  std::vector<Dim> all{Dim(*heads), shape.queries, shape.keys};
  if (rank == 5) all = {keys->heads, *heads / keys->heads, shape.queries, shape.keys};
  if (without_ones(rw.type(probabilities).dims) != without_ones(all)) return std::nullopt;
  std::vector<Scores::Bias> terms;
  const auto window = match_window(rw, indices, scores, shape, terms);
  if (!window) return std::nullopt;

  const double scale = scores.scale * q_scale * keys->traced.scale;
  if (!std::isfinite(static_cast<float>(scale))) return std::nullopt;
  match.op.heads = *heads;
  match.op.kv_heads = keys->heads;
  match.op.head_dim = *cache[4].constant();
  match.value_dim = vals->dim;
  match.op.scale = static_cast<float>(scale);
  match.op.softcap = static_cast<float>(scores.softcap);
  match.op.window = window->tokens;
  match.op.chunked = window->chunked;
  if (!tables.find(rw, indices, shape, terms, match)) return std::nullopt;
  match.op.cache_layout =
      cache_heads_first ? ir::CacheLayout::kHeadsFirst : ir::CacheLayout::kSequenceFirst;
  match.k = keys->fresh;
  match.v = vals->fresh;
  match.k_heads_first = match.v_heads_first = keys->heads_first;
  match.past = keys->cache;
  match.present =
      find_present(rw, keys->traced.value, vals->traced.value, keys->swapped, match.op.head_dim);
  return match;
}

void rewrite(Rewriter& rw, const AttentionMatch& match, ValueId bias, ValueId result,
             NodeIndex anchor) {
  const auto rows = [&](ValueId value, bool heads_first) {
    if (heads_first) value = rw.emit(ir::Transpose{kSwapHeadsAndTokens}, {value}, anchor);
    return pad_last(rw, value, match.op.head_dim, anchor);
  };
  const ValueId q = rows(match.q, match.q_heads_first);
  const ValueId k = rows(match.k, match.k_heads_first), v = rows(match.v, match.v_heads_first);
  std::vector<ValueId> inputs{q, k, v, match.past};
  if (bias.exists() || match.sinks) inputs.push_back(bias);
  if (match.sinks) inputs.push_back(rw.emit_constant(match.sinks, anchor, "sinks"));
  const auto outputs = rw.emit_all(match.op, std::move(inputs), anchor);
  const std::vector<Dim> dims = rw.type(q).dims;
  ValueId by_head = emit_reshape(rw, outputs[0], dims, anchor);
  if (!by_head.exists()) return;
  if (match.value_dim < match.op.head_dim)
    by_head = slice_last(rw, by_head, 0, match.value_dim, anchor);
  const ValueId turned = rw.emit(ir::Transpose{kSwapHeadsAndTokens}, {by_head}, anchor);
  const std::vector<Dim> wanted = rw.type(result).dims;
  const ValueId out = emit_reshape(rw, turned, wanted, anchor);
  if (!out.exists()) return;
  rw.replace(result, out);
  if (match.present.exists()) rw.replace(match.present, outputs[1]);
}

}  // namespace

Result<ir::Graph> fuse_attention(ir::Graph graph, const PassContext& context) {
  Rewriter rw(std::move(graph));
  IndexAnalysis indices(rw);
  BiasTables tables(context.options.context);
  for (const NodeIndex i : rw.nodes<ir::MatMul>()) {
    const ir::Node& node = rw.node(i);
    const auto softmax = match_softmax(rw, node.inputs[0]);
    const auto scores = softmax ? match_scores(rw, softmax->scores) : std::nullopt;
    if (!scores) continue;
    auto match = match_attention(rw, indices, tables, softmax->scores, node.inputs[1], *scores);
    if (!match || (softmax->sinks && softmax->sinks->element_count() != match->op.heads)) continue;
    match->sinks = softmax->sinks;
    rewrite(rw, *match, tables.emit(rw, *match, i), node.outputs[0], i);
  }
  const ValueId mask = rw.graph().input(ir::InputKind::kMask);
  if (mask.exists()) rw.drop_input_if_unused(mask);
  return std::move(rw).finish();
}

}  // namespace llmc::passes

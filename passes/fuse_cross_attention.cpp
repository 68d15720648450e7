#include <cmath>

#include "passes/attention_axes.h"
#include "passes/attention_scores.h"
#include "passes/fusions.h"
#include "passes/mask_analysis.h"

namespace llmc::passes {

namespace {

using ir::Dim;
using ir::ValueId;

/// The keys (half 0) or values (half 1) of a source.
struct SourceHalf {
  ValueId source;
  std::int64_t index = 0, heads = 0, repeats = 1;
  double scale = 1;
};

/// Returns the half of a source, if `traced` is this half as [1, heads, T, D].
std::optional<SourceHalf> source_half_of(const Rewriter& rw, const Traced& traced) {
  const auto order = four_axes(rw, traced);
  if (!order || *order != kHeadsFirstAxes) return std::nullopt;
  const std::vector<Dim>& part = rw.type(traced.value).dims;
  const auto half = match_half(rw, traced.value, {part.begin() + 1, part.end()});
  const auto heads = part[1].constant();
  if (!half || !heads || rw.producer(half->whole)) return std::nullopt;
  return SourceHalf{half->whole, half->index, *heads, traced.repeats, traced.scale};
}

std::optional<SourceHalf> match_source_half(const Rewriter& rw, ValueId value, Axis x, Axis y) {
  const ir::TensorType& type = rw.type(value);
  if (!is_f32(rw, value) || type.rank() < 3 || type.rank() > 5) return std::nullopt;
  Traced traced{value, label(type.dims, operand_axes(type.rank(), x, y)), 1, 1};
  do {
    if (auto half = source_half_of(rw, traced)) return half;
  } while (trace_up(rw, traced));
  return std::nullopt;
}

/// Returns whether the masks are known to hide no score.
bool hides_nothing(const Rewriter& rw, IndexAnalysis& indices, const Scores& scores,
                   const MaskShape& shape) {
  MaskAnalysis masks(rw, indices, shape);
  const auto all = [](const std::optional<Band>& band) { return band == Band{}; };
  for (const Scores::Bias& bias : scores.biases)
    if (!all(masks.bias(bias.value))) return false;
  for (const auto& condition : scores.conditions)
    if (!all(masks.condition(condition.value, condition.seen))) return false;
  return true;
}

struct CrossMatch {
  ir::CrossAttention op;
  Queries q;
  ValueId source;
};

std::optional<CrossMatch> match_cross(const Rewriter& rw, IndexAnalysis& indices,
                                      const ir::Node& product) {
  const auto softmax = match_softmax(rw, product.inputs[0]);
  if (!softmax || softmax->sinks) return std::nullopt;
  const auto scores = match_scores(rw, softmax->scores);
  if (!scores) return std::nullopt;
  const auto keys = match_source_half(rw, scores->k, Axis::kDim, Axis::kTokens);
  const auto values = match_source_half(rw, product.inputs[1], Axis::kTokens, Axis::kDim);
  if (!keys || !values || keys->source != values->source || keys->index != 0 ||
      values->index != 1 || keys->repeats != values->repeats || values->scale != 1)
    return std::nullopt;
  const auto queries = is_f32(rw, scores->q) ? trace_queries(rw, scores->q) : std::nullopt;
  if (!queries) return std::nullopt;
  const std::vector<Dim>& q = rw.type(queries->value).dims;
  const std::vector<Dim>& source = rw.type(keys->source).dims;
  const auto heads = q[queries->heads_first ? 1 : 2].constant();
  const Dim tokens = q[queries->heads_first ? 2 : 1];
  const auto dim = source[3].constant();
  if (!heads || !dim || *heads != keys->heads * keys->repeats || q[3] != source[3])
    return std::nullopt;
  const auto past = ir::sub(source[2], tokens);
  if (!past || !hides_nothing(rw, indices, *scores, {tokens, *past, source[2]}))
    return std::nullopt;
  const double scale = scores->scale * queries->scale * keys->scale;
  if (!std::isfinite(static_cast<float>(scale))) return std::nullopt;
  return CrossMatch{{.heads = *heads,
                     .kv_heads = keys->heads,
                     .head_dim = *dim,
                     .scale = static_cast<float>(scale),
                     .softcap = static_cast<float>(scores->softcap)},
                    *queries,
                    keys->source};
}

}  // namespace

Result<ir::Graph> fuse_cross_attention(ir::Graph graph, const PassContext&) {
  Rewriter rw(std::move(graph));
  IndexAnalysis indices(rw);
  for (const NodeIndex i : rw.nodes<ir::MatMul>()) {
    const auto found = match_cross(rw, indices, rw.node(i));
    if (!found) continue;
    const ValueId result = rw.node(i).outputs[0];
    const ValueId q = found->q.heads_first
                          ? rw.emit(ir::Transpose{kSwapHeadsAndTokens}, {found->q.value}, i)
                          : found->q.value;
    const ValueId rows = rw.emit(found->op, {q, found->source}, i);
    const ValueId by_head = emit_reshape(rw, rows, rw.type(q).dims, i);
    if (!by_head.exists()) continue;
    const ValueId turned = rw.emit(ir::Transpose{kSwapHeadsAndTokens}, {by_head}, i);
    const std::vector<Dim> wanted = rw.type(result).dims;
    const ValueId out = emit_reshape(rw, turned, wanted, i);
    if (out.exists()) rw.replace(result, out);
  }
  return std::move(rw).finish();
}

}  // namespace llmc::passes

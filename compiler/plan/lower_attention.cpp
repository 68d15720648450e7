#include <fmt/format.h>

#include "compiler/plan/lower.h"

/// Lowers attention and the projections that feed it.
namespace llmc::plan {

namespace {

/// Returns the part of a stage's comment about its softcap; empty if it is 0.
std::string softcap_text(float softcap) {
  return softcap > 0 ? fmt::format(", scores up to {}", softcap) : "";
}

}  // namespace

bool Lowerer::note_attention(Scope& scope, const ir::Node& node, const AttentionShape& shape,
                             std::uint32_t layer) {
  if (shape.heads == 0 || shape.kv_heads == 0 || shape.head_dim == 0 ||
      shape.heads % shape.kv_heads != 0) {
    bad_input(node, fmt::format("invalid attention shape: {} query heads, {} KV heads, head_dim {}",
                                shape.heads, shape.kv_heads, shape.head_dim));
    return false;
  }
  if (program_.attention.heads == 0) program_.attention = shape;
  if (program_.attention != shape) {
    unsupported(node, "all attention layers must have the same head counts");
    return false;
  }
  // Inside a loop, `layer` is relative to the iteration, and lower_loop() has checked the caches.
  if (!scope.loop && layer >= program_.layers) {
    bad_input(node, "its cache is not one of the model's inputs");
    return false;
  }
  return true;
}

void Lowerer::lower_qkv(Scope& scope, const ir::Node& node, const ir::QkvProjection& op) {
  const auto source = activation(scope, node, 0);
  if (!source) return input_is_no_activation(scope, node);
  QkvStage stage;
  stage.shape = {unsigned_of(op.heads), unsigned_of(op.kv_heads), unsigned_of(op.head_dim)};
  stage.source = *source;
  stage.k = program_.buffers[source->index].width;

  // K and V are stored directly in the cache, so both may have only one reader: the attention of
  // the layer.
  const PastBinding* past = nullptr;
  for (std::size_t slot = 1; slot < 3; ++slot) {
    const auto& users = scope.uses.users(node.outputs[slot]);
    const ir::Node* user = users.size() == 1 ? &scope.graph.node(users[0]) : nullptr;
    if (!ir::op_as<ir::Attention>(user) || user->inputs[slot] != node.outputs[slot] ||
        scope.uses.is_graph_output(node.outputs[slot])) {
      return unsupported(node, "keys and values are used by something other than one attention");
    }
    past = std::get_if<PastBinding>(&input(scope, *user, 3));
  }
  if (!past) return unsupported(node, "its attention has no cache among the model's inputs");
  stage.layer = past->layer;
  if (!note_attention(scope, node, stage.shape, past->layer)) return;

  const ir::TensorType* type = weight_type(scope, node, 1);
  const auto n = static_cast<std::int64_t>((stage.shape.heads + 2 * stage.shape.kv_heads) *
                                           stage.shape.head_dim);
  if (!type || type->dims != std::vector<ir::Dim>{n, static_cast<std::int64_t>(stage.k)}) {
    return bad_input(node, fmt::format("its weight is not [{}, {}]", n, stage.k));
  }
  stage.norm = norm_input(
      scope, node, {.weight = 3, .bias = 6, .epsilon = op.norm_epsilon, .kind = op.norm_kind},
      "qkv_norm", stage.k);
  if (op.qk_norm_epsilon) {
    stage.qk_norm_epsilon = *op.qk_norm_epsilon;
    stage.q_norm = vector_weight(scope, node, 7, "q_norm", stage.shape.head_dim);
    stage.k_norm = vector_weight(scope, node, 8, "k_norm", stage.shape.head_dim);
  }
  if (op.rope) {
    const auto found = angles(scope, node, 4, 5, *op.rope, stage.shape.head_dim);
    if (!found) return;
    stage.angles = *found;
  }
  const std::string label(ir::to_string(op.role));
  WeightSpec spec{.use = WeightUse::kMatrix,
                  .format = op.format,
                  .hadamard = op.hadamard,
                  .order = RowOrder::kQkv,
                  .shape = stage.shape,
                  .label = label};
  const auto value_rows = static_cast<std::int64_t>(stage.shape.kv_heads * stage.shape.head_dim);
  if (splits_values(scope, node, op, n - value_rows, n)) {
    // Both parts are ranges of heads, and the packing of rows does not depend on a head's role.
    WeightSpec part = spec;
    part.label = ir::to_string(ir::WeightRole::kQueryKey);
    part.shape.heads = stage.shape.heads + stage.shape.kv_heads;
    part.shape.kv_heads = 0;
    part.row_count = n - value_rows;
    stage.weight = weight(scope, node, 1, part);
    part.label = ir::to_string(ir::WeightRole::kValue);
    part.format = value_format(op);
    part.shape.heads = stage.shape.kv_heads;
    part.first_row = n - value_rows;
    part.row_count = value_rows;
    stage.value_weight = weight(scope, node, 1, part);
  } else {
    stage.weight = weight(scope, node, 1, spec);
  }
  if (present(node, 2)) {
    if (ir::element_count(*weight_type(scope, node, 2)) != n) {
      return bad_input(node, fmt::format("its bias does not have {} elements", n));
    }
    spec.use = WeightUse::kVector;
    spec.pad_rows = true;
    spec.label = label + "_bias";
    stage.bias = weight(scope, node, 2, spec);
  }
  const auto q = output_buffer(scope, node, "q");
  if (!q) return;
  stage.q = *q;
  bind(scope, node.outputs[0], *q);
  binding(scope, node.outputs[1]) = binding(scope, node.outputs[2]) = CachedBinding{};
  emit(scope, node, stage,
       fmt::format("{}[tokens, {}] x [{}, {}]^T -> q, and k and v into the cache",
                   stage.norm.exists() ? "norm " : "", stage.k, n, stage.k),
       false);
}

void Lowerer::lower_attention(Scope& scope, const ir::Node& node, const ir::Attention& op) {
  const AttentionShape shape{unsigned_of(op.heads), unsigned_of(op.kv_heads),
                             unsigned_of(op.head_dim)};
  const auto q = activation(scope, node, 0);
  const auto* past = std::get_if<PastBinding>(&input(scope, node, 3));
  if (!q || !past) return unsupported(node, "its cache is not one of the model's inputs");
  if (!note_attention(scope, node, shape, past->layer)) return;
  if (program_.buffers[q->index].width != shape.heads * shape.head_dim || in_head(*q)) {
    return bad_input(
        node, fmt::format("its queries are not {} heads of {}", shape.heads, shape.head_dim));
  }
  // Layers may attend to the keys and values of an earlier layer, which are in its cache already.
  const auto [stored_kv, is_first] =
      scope.cached.try_emplace(past->layer, node.inputs[1], node.inputs[2]);
  if (!is_first && stored_kv->second != std::pair(node.inputs[1], node.inputs[2]))
    return unsupported(node, "its cache already holds other keys and values of these tokens");
  const auto k = is_first ? activation(scope, node, 1) : std::nullopt;
  const auto v = is_first ? activation(scope, node, 2) : std::nullopt;
  if (k && v) {
    emit(scope, node, KvStoreStage{shape, *k, *v, past->layer},
         fmt::format("k, v [tokens, {}, {}] into the cache", shape.kv_heads, shape.head_dim),
         false);
  } else if (is_first && (!std::holds_alternative<CachedBinding>(input(scope, node, 1)) ||
                          !std::holds_alternative<CachedBinding>(input(scope, node, 2)))) {
    return unsupported(node, "keys and values come from different kinds of stages");
  }
  const auto out = output_buffer(scope, node, "attended");
  if (!out) return;
  bind(scope, node.outputs[0], *out);
  binding(scope, node.outputs[1]) = PresentBinding{};
  AttentionStage stage;
  stage.shape = shape;
  stage.scale = op.scale;
  stage.softcap = op.softcap;
  stage.window = unsigned_of(op.window);
  stage.chunked = op.chunked;
  stage.q = *q;
  stage.out = *out;
  stage.layer = past->layer;
  if (present(node, 4)) {
    const ir::TensorType* type = weight_type(scope, node, 4);
    const auto columns = type && type->rank() == 2 ? type->dims[1].constant() : std::nullopt;
    if (!columns) return unsupported(node, "the bias of its scores is not a constant");
    stage.bias_columns = unsigned_of(*columns);
    stage.bias = vector_weight(scope, node, 4, "position_bias", shape.heads * stage.bias_columns);
    stage.bias_by_key = op.bias_by_key;
    if (stage.bias_columns < options_.context) limit_positions(stage.bias_columns);
  }
  if (present(node, 5)) stage.sinks = vector_weight(scope, node, 5, "sinks", shape.heads);
  std::string rule;
  if (stage.sinks.exists()) rule += ", a sink";
  if (stage.bias.exists()) rule += stage.bias_by_key ? ", bias by key" : ", bias by distance";
  if (stage.window > 0)
    rule += stage.chunked ? fmt::format(", chunks of {} tokens", stage.window)
                          : fmt::format(", the last {} tokens", stage.window);
  rule += softcap_text(stage.softcap);
  emit(scope, node, stage,
       fmt::format("q [tokens, {}, {}] over {} key heads{} -> [tokens, {}]", shape.heads,
                   shape.head_dim, shape.kv_heads, rule, shape.heads * shape.head_dim),
       false);
}

void Lowerer::lower_cross_attention(Scope& scope, const ir::Node& node,
                                    const ir::CrossAttention& op) {
  const AttentionShape shape{unsigned_of(op.heads), unsigned_of(op.kv_heads),
                             unsigned_of(op.head_dim)};
  const auto q = activation(scope, node, 0);
  const auto* source = std::get_if<SourceBinding>(&input(scope, node, 1));
  if (!q || !source) return unsupported(node, "its source is not one of the model's inputs");
  if (program_.cross.heads == 0) program_.cross = shape;
  if (program_.cross != shape)
    return unsupported(node, "all cross-attention layers must have the same head counts");
  if (program_.buffers[q->index].width != shape.heads * shape.head_dim || in_head(*q)) {
    return bad_input(
        node, fmt::format("its queries are not {} heads of {}", shape.heads, shape.head_dim));
  }
  const auto out = output_buffer(scope, node, "attended");
  if (!out) return;
  bind(scope, node.outputs[0], *out);
  emit(scope, node, CrossAttentionStage{shape, op.scale, op.softcap, *q, *out, source->layer},
       fmt::format("q [tokens, {}, {}] over {} key heads of the source{} -> [tokens, {}]",
                   shape.heads, shape.head_dim, shape.kv_heads, softcap_text(op.softcap),
                   shape.heads * shape.head_dim),
       false);
}

}  // namespace llmc::plan

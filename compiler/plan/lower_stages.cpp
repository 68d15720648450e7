#include <fmt/format.h>

#include <algorithm>

#include "compiler/plan/lower.h"

/// Stages that project, attend and embed: the ones a decoder is made of.
namespace llmc::plan {
namespace {

std::uint64_t unsigned_of(std::int64_t value) {
  return value > 0 ? static_cast<std::uint64_t>(value) : 0;
}

}  // namespace

void Lowerer::lower_embedding(Scope& scope, const ir::Node& node) {
  if (!std::holds_alternative<TokensPlace>(input(scope, node, 0))) {
    return unsupported(node, "only the model's input_ids can be embedded");
  }
  const auto out = output_buffer(scope, node, "x");
  const ir::TensorType* type = weight_type(scope, node, 1);
  if (!out || !type || type->rank() != 2) return;
  const WeightRef table = weight(scope, node, 1,
                                 {.use = WeightUse::kTable,
                                  .format = options_.formats.embedding,
                                  .shape = {},
                                  .label = "embedding"});
  if (!table.exists()) return;
  bind(scope, node.outputs[0], *out);
  emit(scope, node, EmbeddingStage{table, *out},
       fmt::format("row of each token: [tokens, {}]", program_.buffers[out->index].width), false);
}

void Lowerer::lower_linear(Scope& scope, const ir::Node& node, const ir::Linear& op) {
  const auto source = activation(scope, node, 0);
  if (!source) return unsupported(node, "its input is not an activation");
  const ir::TensorType* type = weight_type(scope, node, 1);
  const auto n = type && type->rank() == 2 ? type->dims[0].constant() : std::nullopt;
  const auto k = type && type->rank() == 2 ? type->dims[1].constant() : std::nullopt;
  LinearStage stage;
  stage.source = *source;
  stage.n = unsigned_of(n.value_or(0));
  stage.k = unsigned_of(k.value_or(0));
  const bool swiglu = op.gated;
  const bool silu = op.function == ir::ActivationFn::kSilu;
  if (op.norm_kind != ir::NormKind::kRms ||
      (op.gated ? !silu : op.function != ir::ActivationFn::kNone)) {
    return unsupported(node, "its norm or function has no kernel");
  }
  const std::uint64_t width = program_.buffers[source->index].width;
  if (stage.n == 0 || stage.k != width || (swiglu && stage.n % 2 != 0)) {
    return bad_input(
        node, fmt::format("a weight [{}, {}] does not fit rows of {}", stage.n, stage.k, width));
  }
  const bool head = in_head(*source);
  const std::string label = linear_label(scope, node, op);
  stage.norm = norm_input(scope, node, 3, op.norm_epsilon, label + "_norm", stage.k);
  WeightSpec spec{.use = WeightUse::kMatrix,
                  .format = format_of(op.format, label),
                  .order = swiglu ? RowOrder::kSwiGlu : RowOrder::kPlain,
                  .shape = {},
                  .label = label};
  stage.weight = weight(scope, node, 1, spec);
  if (present(node, 2)) {
    const ir::TensorType* bias = weight_type(scope, node, 2);
    if (ir::element_count(*bias) != n) {
      return bad_input(node, fmt::format("its bias does not have {} elements", stage.n));
    }
    spec.use = WeightUse::kVector;
    spec.pad_rows = true;
    spec.label = label + "_bias";
    stage.bias = weight(scope, node, 2, spec);
  }

  std::string tail = swiglu ? " -> silu(gate) * up" : "";
  if (present(node, 4)) {
    const auto residual = activation(scope, node, 4);
    if (!residual || swiglu || program_.buffers[residual->index].width != stage.n ||
        in_head(*residual) != head) {
      return unsupported(node, "the value added to its result has other rows");
    }
    tail = " added to x";
    stage.residual = *residual;
    if (*residual != *source && dies_here(scope, node.inputs[4])) {
      stage.epilogue = LinearStage::Epilogue::kAddTo;
      stage.out = *residual;
    } else {
      stage.epilogue = LinearStage::Epilogue::kAddStore;
    }
  } else if (swiglu) {
    stage.epilogue = LinearStage::Epilogue::kSwiGlu;
  }
  if (!stage.out.exists()) {
    const char* name = swiglu ? "gated" : label == "head" ? "logits" : "y";
    const auto out = output_buffer(scope, node, name);
    if (!out) return;
    stage.out = *out;
  }
  bind(scope, node.outputs[0], stage.out);
  emit(scope, node, stage,
       fmt::format("{}[{}, {}] x [{}, {}]^T{}", stage.norm.exists() ? "norm " : "",
                   head ? "1" : "tokens", stage.k, stage.n, stage.k, tail),
       head);
}

bool Lowerer::note_attention(const ir::Node& node, const AttentionShape& shape, std::uint32_t layer,
                             std::uint32_t count) {
  if (shape.heads == 0 || shape.kv_heads == 0 || shape.head_dim == 0 ||
      shape.heads % shape.kv_heads != 0) {
    bad_input(node, fmt::format("{} query heads over {} key heads of {} cannot be", shape.heads,
                                shape.kv_heads, shape.head_dim));
    return false;
  }
  if (program_.attention.heads == 0) program_.attention = shape;
  if (program_.attention != shape) {
    unsupported(node, "layers with different heads share no KV block");
    return false;
  }
  if (layer + count > program_.layers) {
    bad_input(node, "its cache is not one of the model's inputs");
    return false;
  }
  return true;
}

void Lowerer::lower_qkv(Scope& scope, const ir::Node& node, const ir::QkvProjection& op) {
  const auto source = activation(scope, node, 0);
  if (!source) return unsupported(node, "its input is not an activation");
  if (op.norm_kind != ir::NormKind::kRms || op.qk_norm_epsilon) {
    return unsupported(node, "its norm has no kernel");
  }
  QkvStage stage;
  stage.shape = {unsigned_of(op.heads), unsigned_of(op.kv_heads), unsigned_of(op.head_dim)};
  stage.source = *source;
  stage.k = program_.buffers[source->index].width;

  // K and V go straight into the cache, so both may have one reader: the attention of a layer.
  const PastPlace* past = nullptr;
  for (std::size_t slot = 1; slot < 3; ++slot) {
    const auto& users = scope.uses.users(node.outputs[slot]);
    const ir::Node* user = users.size() == 1 ? &scope.graph.node(users[0]) : nullptr;
    if (!ir::op_as<ir::Attention>(user) || user->inputs[slot] != node.outputs[slot] ||
        scope.uses.is_graph_output(node.outputs[slot])) {
      return unsupported(node, "keys and values are used by something other than one attention");
    }
    past = std::get_if<PastPlace>(&input(scope, *user, 3));
  }
  if (!past) return unsupported(node, "its attention has no cache among the model's inputs");
  stage.layer = past->layer;
  const std::uint32_t count = scope.loop ? scope.loop->count : 1;
  if (!note_attention(node, stage.shape, past->layer, count)) return;

  const ir::TensorType* type = weight_type(scope, node, 1);
  const auto n = static_cast<std::int64_t>((stage.shape.heads + 2 * stage.shape.kv_heads) *
                                           stage.shape.head_dim);
  if (!type || type->dims != std::vector<ir::Dim>{n, static_cast<std::int64_t>(stage.k)}) {
    return bad_input(node, fmt::format("its weight is not [{}, {}]", n, stage.k));
  }
  stage.norm = norm_input(scope, node, 3, op.norm_epsilon, "qkv_norm", stage.k);
  if (op.rope) {
    const auto found = angles(scope, node, 4, 5, *op.rope, stage.shape.head_dim);
    if (!found) return;
    stage.angles = *found;
  }
  const bool unset = op.format == ir::WeightFormat::kUnset;
  WeightSpec spec{.use = WeightUse::kMatrix,
                  .format = unset ? options_.formats.query_key : op.format,
                  .order = RowOrder::kQkv,
                  .shape = stage.shape,
                  .label = "qkv"};
  if (unset && options_.formats.value != options_.formats.query_key) {
    // Both parts are runs of heads; what a head is for does not change how its rows are packed.
    const auto value_rows = static_cast<std::int64_t>(stage.shape.kv_heads * stage.shape.head_dim);
    WeightSpec part = spec;
    part.label = "query_key";
    part.shape.heads = stage.shape.heads + stage.shape.kv_heads;
    part.shape.kv_heads = 0;
    part.row_count = n - value_rows;
    stage.weight = weight(scope, node, 1, part);
    part.label = "value";
    part.format = options_.formats.value;
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
    spec.label = "qkv_bias";
    stage.bias = weight(scope, node, 2, spec);
  }
  const auto q = output_buffer(scope, node, "q");
  if (!q) return;
  stage.q = *q;
  bind(scope, node.outputs[0], *q);
  place(scope, node.outputs[1]) = place(scope, node.outputs[2]) = CachedPlace{};
  emit(scope, node, stage,
       fmt::format("{}[tokens, {}] x [{}, {}]^T -> q, and k and v into the cache",
                   stage.norm.exists() ? "norm " : "", stage.k, n, stage.k),
       false);
}

void Lowerer::lower_attention(Scope& scope, const ir::Node& node, const ir::Attention& op) {
  if (op.softcap > 0 || op.window > 0) return unsupported(node, "it has no kernel");
  const AttentionShape shape{unsigned_of(op.heads), unsigned_of(op.kv_heads),
                             unsigned_of(op.head_dim)};
  const auto q = activation(scope, node, 0);
  const auto* past = std::get_if<PastPlace>(&input(scope, node, 3));
  if (!q || !past) return unsupported(node, "its cache is not one of the model's inputs");
  const std::uint32_t count = scope.loop ? scope.loop->count : 1;
  if (!note_attention(node, shape, past->layer, count)) return;
  if (program_.buffers[q->index].width != shape.heads * shape.head_dim || in_head(*q)) {
    return bad_input(
        node, fmt::format("its queries are not {} heads of {}", shape.heads, shape.head_dim));
  }
  const auto k = activation(scope, node, 1);
  const auto v = activation(scope, node, 2);
  if (k && v) {
    emit(scope, node, KvStoreStage{shape, *k, *v, past->layer},
         fmt::format("k, v [tokens, {}, {}] into the cache", shape.kv_heads, shape.head_dim),
         false);
  } else if (!std::holds_alternative<CachedPlace>(input(scope, node, 1)) ||
             !std::holds_alternative<CachedPlace>(input(scope, node, 2))) {
    return unsupported(node, "keys and values come from different kinds of stages");
  }
  const auto out = output_buffer(scope, node, "attended");
  if (!out) return;
  bind(scope, node.outputs[0], *out);
  place(scope, node.outputs[1]) = PresentPlace{};
  emit(scope, node, AttentionStage{shape, op.scale, *q, *out, past->layer},
       fmt::format("q [tokens, {}, {}] over {} key heads -> [tokens, {}]", shape.heads,
                   shape.head_dim, shape.kv_heads, shape.heads * shape.head_dim),
       false);
}

void Lowerer::lower_loop(Scope& scope, const ir::Node& node, const ir::Loop& op) {
  if (scope.loop) return unsupported(node, "a loop inside a loop");
  const ir::Graph& body = *op.body;
  const auto carried = static_cast<std::size_t>(op.carried);
  const auto slots = static_cast<std::size_t>(op.per_iteration_inputs);
  const auto count = static_cast<std::size_t>(op.count);
  LoopStage loop;
  loop.count = static_cast<std::uint32_t>(count);
  loop.function = loops_ == 0 ? "layer" : fmt::format("layer_{}", loops_ + 1);
  ++loops_;

  Scope inner(body, &loop);
  inner.op = &op;
  std::vector<BufferId> carriers;
  for (std::size_t i = 0; i < carried; ++i) {
    const auto start = activation(scope, node, i);
    if (!start) return unsupported(node, "what it carries from layer to layer is no activation");
    BufferId buffer = *start;
    const bool twice = std::ranges::count(carriers, buffer) != 0;
    if (twice || !dies_here(scope, node.inputs[i])) {
      const Buffer& from = program_.buffers[start->index];
      buffer = new_buffer("x", {from.width, from.one_row});
      emit(scope, node, CopyStage{*start, buffer, program_.buffers[start->index].width}, "", false);
    }
    carriers.push_back(buffer);
    bind(inner, body.inputs()[i], buffer);
  }
  for (std::size_t j = 0; j < slots; ++j) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto* past = std::get_if<PastPlace>(&input(scope, node, carried + i * slots + j));
      if (!past) return unsupported(node, "a layer's own input is not its cache");
      if (i == 0) {
        loop.first_layer = past->layer;
        place(inner, body.inputs()[carried + j]) = *past;
      } else if (past->layer != loop.first_layer + i) {
        return unsupported(node, "the layers' caches are not in order");
      }
    }
  }
  if (slots > 1) return unsupported(node, "a layer with more than one cache");
  for (std::size_t i = carried + slots; i < body.inputs().size(); ++i) {
    Place outer = input(scope, node, carried + count * slots + (i - carried - slots));
    if (auto* activation = std::get_if<Activation>(&outer)) activation->pinned = true;
    place(inner, body.inputs()[i]) = std::move(outer);
  }

  for (; inner.node < body.nodes().size(); ++inner.node)
    lower_node(inner, body.nodes()[inner.node]);
  if (!diagnostics_.empty()) return;

  for (std::size_t i = 0; i < carried; ++i) {
    const auto* result = std::get_if<Activation>(&place(inner, body.outputs()[i]));
    if (!result) return unsupported(node, "what it carries from layer to layer is no activation");
    if (result->buffer != carriers[i]) {
      // A result in another carrier's storage would be overwritten by an earlier copy.
      if (std::ranges::count(carriers, result->buffer) != 0) {
        return unsupported(node, "layers exchange the values they carry");
      }
      inner.stages.push_back(
          {CopyStage{result->buffer, carriers[i], program_.buffers[carriers[i].index].width},
           node.origin, ""});
    }
    bind(scope, node.outputs[i], carriers[i]);
  }
  for (std::size_t i = carried; i < node.outputs.size(); ++i) {
    place(scope, node.outputs[i]) = PresentPlace{};
  }
  for (std::size_t iteration = 0; iteration < count; ++iteration) {
    for (std::size_t f = 0; f < loop.fields.size(); ++f) {
      loop.fields[f].weights.push_back(static_cast<std::uint32_t>(program_.weights.size()));
      program_.weights.push_back(std::move(inner.field_weights[f][iteration]));
    }
  }
  loop.body = std::move(inner.stages);
  program_.forward.push_back({std::move(loop), {}, {}});  // its body says where it comes from
}

}  // namespace llmc::plan

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/op_info.h"
#include "compiler/plan/lower.h"
#include "compiler/plan/weight_formats.h"

/// Lowers embeddings, linear layers and loops.
namespace llmc::plan {
bool Lowerer::lower_embedding(Scope& scope, const ir::Node& node, const ir::Embedding& op) {
  const bool by_position = std::holds_alternative<PositionsBinding>(input(scope, node, 0));
  if (!by_position && !std::holds_alternative<TokensBinding>(input(scope, node, 0))) {
    return false;
  }
  const auto out = output_buffer(scope, node, by_position ? "position" : "x");
  const ir::TensorType* type = weight_type(scope, node, 1);
  if (!type || type->rank() != 2) return false;
  if (!out) return true;
  const std::uint64_t rows = unsigned_of(type->dims[0].constant().value_or(0));
  if (by_position) limit_positions(rows);
  const WeightRef table = weight(scope, node, 1,
                                 {.use = WeightUse::kTable,
                                  .format = op.format,
                                  .label = std::string(ir::to_string(op.role)),
                                  .row_count = by_position ? position_rows(rows) : 0});
  if (!table.exists()) return true;
  bind(scope, node.outputs[0], *out);
  emit(scope, node, EmbeddingStage{table, *out, by_position, {}},
       fmt::format("row of each {}: [tokens, {}]", by_position ? "position" : "token",
                   program_.buffers[out->index].width),
       false);
  return true;
}

/// Lowers the embedding of a plain graph, whose ids are in a buffer.
bool Lowerer::lower_lookup(Scope& scope, const ir::Node& node, const ir::Embedding& op) {
  const auto ids = stored(scope, node.inputs[0]);
  const auto out = output_buffer(scope, node, "rows");
  if (!ids || !out) return false;
  const WeightRef table = weight(scope, node, 1,
                                 {.use = WeightUse::kTable,
                                  .format = op.format,
                                  .label = std::string(ir::to_string(op.role))});
  if (!table.exists()) return true;
  bind(scope, node.outputs[0], *out);
  const std::uint64_t count = program_.buffers[ids->index].width;
  if (count == 0) return true;
  emit(scope, node, EmbeddingStage{.table = table, .out = *out, .ids = *ids},
       fmt::format("{} rows of {}", count, program_.weights[table.index].columns), false);
  return true;
}

/// Lowers windows that only linear layers read to a view of the operand. These layers quantize or
/// copy the windows some rows at a time. Returns false if all windows have to be stored.
bool Lowerer::lower_unfold(Scope& scope, const ir::Node& node, const ir::Unfold& op) {
  const ir::ValueId x = node.inputs[0], y = node.outputs[0];
  if (scope.graph.value(x).type.element != ir::ElementType::kF32 || scope.uses.is_graph_output(y) ||
      product(*scope.nests.dims_of(y)) == 0)
    return false;
  for (const ir::NodeId user : scope.uses.users(y)) {
    const ir::Node& reader = scope.graph.node(user);
    const auto* linear = ir::op_as<ir::Linear>(&reader);
    if (!linear || std::ranges::count(reader.inputs, y) != 1 || reader.inputs[0] != y ||
        linear->norm_epsilon)
      return false;
  }
  const auto source = stored(scope, x);
  if (!source) return false;
  const Sizes& to = *scope.nests.dims_of(y);
  const View all =
      unfolded(View::dense(source->index, *scope.nests.dims_of(x)), op, part(to, 1, to.size() - 1));
  LinearStage::Windows windows;
  const std::size_t rows = to.size() - 1;
  const auto of_dims = [&](std::size_t begin, std::size_t end) {
    View view{View::kNoBuffer, part(all.dims, begin, end), part(all.strides, begin, end)};
    collapse({&view});
    return view;
  };
  windows.first = of_dims(0, rows);
  windows.elements = of_dims(rows, all.dims.size());
  if (windows.elements.dims.empty() || windows.elements.strides.back() != 1) {
    windows.elements.dims.push_back(1);
    windows.elements.strides.push_back(1);
  }
  binding(scope, y) = WindowsBinding{*source, std::move(windows)};
  return true;
}

void Lowerer::lower_linear(Scope& scope, const ir::Node& node, const ir::Linear& op) {
  const auto* windows = std::get_if<WindowsBinding>(&input(scope, node, 0));
  const auto source = windows ? std::optional(windows->source) : activation(scope, node, 0);
  if (!source) return input_is_no_activation(scope, node);
  const ir::TensorType* type = weight_type(scope, node, 1);
  const auto n = type && type->rank() == 2 ? type->dims[0].constant() : std::nullopt;
  const auto k = type && type->rank() == 2 ? type->dims[1].constant() : std::nullopt;
  LinearStage stage;
  stage.source = *source;
  stage.n = unsigned_of(n.value_or(0));
  stage.k = unsigned_of(k.value_or(0));
  if (windows) stage.windows = windows->windows;
  const std::uint64_t width =
      windows ? unsigned_of(product(*scope.nests.dims_of(node.inputs[0])).bound())
              : program_.buffers[source->index].width;
  // The buffer of a plain graph holds all rows.
  const std::uint64_t rows = is_plain_ && stage.k > 0 ? width / stage.k : 1;
  if (stage.n == 0 || stage.k * rows != width || (op.gated && stage.n % 2 != 0)) {
    return bad_input(
        node, fmt::format("a weight [{}, {}] does not fit rows of {}", stage.n, stage.k, width));
  }
  const bool head = in_head(*source);
  const std::string label(ir::to_string(op.role));
  stage.function = op.function;
  stage.norm = norm_input(
      scope, node, {.weight = 3, .bias = 5, .epsilon = op.norm_epsilon, .kind = op.norm_kind},
      label + "_norm", stage.k);
  WeightSpec spec{.use = WeightUse::kMatrix,
                  .format = op.format,
                  .hadamard = op.hadamard,
                  .order = op.gated ? RowOrder::kGated : RowOrder::kPlain,
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

  const std::string function(ir::op_name(ir::Unary{ir::unary_kind(op.function)}));
  std::string tail;
  if (op.gated) {
    tail = fmt::format(" -> {}(gate) * up", function);
  } else if (op.function != ir::ActivationFn::kNone) {
    tail = fmt::format(" -> {}", function);
  }
  if (present(node, 4)) {
    const auto residual = activation(scope, node, 4);
    if (!residual || op.gated || program_.buffers[residual->index].width != rows * stage.n ||
        in_head(*residual) != head) {
      return unsupported(node, "the value added to its result has other rows");
    }
    tail += " added to x";
    stage.residual = *residual;
    if (*residual != *source && !scope.output(node.outputs[0]) &&
        is_last_use(scope, node.inputs[4])) {
      stage.epilogue = LinearStage::Epilogue::kAddTo;
      stage.out = *residual;
    } else {
      stage.epilogue = LinearStage::Epilogue::kAddStore;
    }
  } else if (op.gated) {
    stage.epilogue = LinearStage::Epilogue::kGated;
  }
  if (!stage.out.exists()) {
    const char* name = op.gated ? "gated" : op.role == ir::WeightRole::kHead ? "logits" : "y";
    const auto out = output_buffer(scope, node, name);
    if (!out) return;
    stage.out = *out;
  }
  bind(scope, node.outputs[0], stage.out);
  if (rows == 0) return;
  emit(scope, node, stage,
       fmt::format("{}[{}, {}] x [{}, {}]^T{}", stage.norm.exists() ? "norm " : "",
                   is_plain_ ? fmt::format("{}", rows)
                   : head    ? "1"
                             : "tokens",
                   stage.k, stage.n, stage.k, tail),
       head);
}

std::optional<BufferId> Lowerer::stored(Scope& scope, ir::ValueId value) {
  if (!value.exists()) return std::nullopt;
  if (std::holds_alternative<NestBinding>(binding(scope, value))) {
    const BufferId found{scope.nests.store_whole(value)};
    const bool is_state = program_.buffers[found.index].place == Place::kState;
    bind(scope, value, is_state ? copied(scope, value, found) : found);
  }
  if (const auto* in = std::get_if<InputBinding>(&binding(scope, value)))
    return BufferId{in->buffer};
  if (const auto* constant = std::get_if<ConstantBinding>(&binding(scope, value));
      is_plain_ && constant != nullptr)
    return BufferId{scope.data(constant->data, WeightUse::kData, value)};
  const auto* activation = std::get_if<Activation>(&binding(scope, value));
  return activation ? std::optional(activation->buffer) : std::nullopt;
}

decltype(Stage::op) Lowerer::copy_of(BufferId from, BufferId to) const {
  const Buffer& buffer = program_.buffers[from.index];
  if (buffer.element == ir::ElementType::kF32) return CopyStage{from, to, buffer.width};
  const Sizes dims{static_cast<std::int64_t>(buffer.width)};
  return MapStage{View::dense(to.index, dims), load(buffer.element, View::dense(from.index, dims))};
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

  Scope inner(*this, body, &loop);
  inner.op = &op;
  std::vector<BufferId> carriers;
  // Operand `i` of the loop corresponds to input `j` of its body.
  const auto is_failed = [&](std::size_t i, std::size_t j) {
    if (!present(node, i) || !scope.failed.contains(node.inputs[i].index)) return false;
    inner.failed.insert(body.inputs()[j].index);
    return true;
  };
  for (std::size_t i = 0; i < carried; ++i) {
    if (is_failed(i, i)) continue;  // the body is lowered only for its own errors
    const auto start = stored(scope, node.inputs[i]);
    if (!start) return unsupported(node, "the initial value of the loop is not an activation");
    BufferId buffer = *start;
    const bool twice = std::ranges::count(carriers, buffer) != 0;
    if (twice || !is_last_use(scope, node.inputs[i])) {
      const Buffer& from = program_.buffers[start->index];
      const ir::ElementType element = from.element;
      buffer = new_buffer("x", {from.width, from.one_row});
      program_.buffers[buffer.index].element = element;
      emit(scope, node, copy_of(*start, buffer), "", false);
    }
    carriers.push_back(buffer);
    bind(inner, body.inputs()[i], buffer);
  }
  // Each iteration has the same slots: caches, and sources of cross-attention. The layers of both
  // have the same numbers.
  std::uint32_t pasts = 0, sources = 0;
  for (std::size_t j = 0; j < slots; ++j) {
    const bool is_source = std::holds_alternative<SourceBinding>(input(scope, node, carried + j));
    ValueBinding& inside = binding(inner, body.inputs()[carried + j]);
    if (is_source)
      inside = SourceBinding{sources++};
    else
      inside = PastBinding{pasts++};
  }
  if (sources != 0 && sources != pasts)
    return unsupported(node, "a layer does not have one cache and one source");
  loop.layers_per_pass = pasts;
  for (std::size_t i = 0; i < count * slots; ++i) {
    if (is_failed(carried + i, carried + i % slots)) continue;
    const ValueBinding& outer = input(scope, node, carried + i);
    const ValueBinding& inside = binding(inner, body.inputs()[carried + i % slots]);
    const auto* past = std::get_if<PastBinding>(&outer);
    const auto* source = std::get_if<SourceBinding>(&outer);
    if (past && i == 0) loop.first_layer = past->layer;
    if (source && i == 0) loop.first_layer = source->layer;
    const auto* past_inside = std::get_if<PastBinding>(&inside);
    const auto* source_inside = std::get_if<SourceBinding>(&inside);
    if (!(past && past_inside) && !(source && source_inside))
      return unsupported(node, "a per-layer input is neither a KV cache nor a source");
    const std::uint32_t layer = loop.first_layer + static_cast<std::uint32_t>(i / slots) * pasts +
                                (past ? past_inside->layer : source_inside->layer);
    if ((past ? past->layer : source->layer) != layer)
      return unsupported(node, "the layers' caches are not in order");
  }
  for (std::size_t i = carried + slots; i < body.inputs().size(); ++i) {
    const std::size_t operand = carried + count * slots + (i - carried - slots);
    if (is_failed(operand, i)) continue;
    stored(scope, node.inputs[operand]);
    ValueBinding outer = input(scope, node, operand);
    if (auto* activation = std::get_if<Activation>(&outer)) activation->pinned = true;
    binding(inner, body.inputs()[i]) = std::move(outer);
  }

  for (; inner.node < body.nodes().size(); ++inner.node)
    lower_node(inner, body.nodes()[inner.node]);
  known_causes_ = diagnostics_.size();
  if (!diagnostics_.empty()) return;

  for (std::size_t i = 0; i < carried; ++i) {
    const ir::ValueId carried_out = body.outputs()[i];
    const auto result = stored(inner, carried_out);
    if (!result) return unsupported(node, "a value carried between layers is not an activation");
    if (*result != carriers[i]) {
      // A result in the storage of another carried value would be overwritten by an earlier copy.
      if (std::ranges::count(carriers, *result) != 0) {
        return unsupported(node, "layers swap carried values");
      }
      const ir::Node* made_by = inner.uses.producer(body.outputs()[i]);
      inner.stages.push_back(
          {copy_of(*result, carriers[i]), made_by ? made_by->origin : node.origin, ""});
    }
    bind(scope, node.outputs[i], carriers[i]);
  }
  for (std::size_t i = carried; i < node.outputs.size(); ++i) {
    binding(scope, node.outputs[i]) = PresentBinding{};
  }
  for (std::size_t iteration = 0; iteration < count; ++iteration) {
    for (std::size_t f = 0; f < loop.fields.size(); ++f) {
      loop.fields[f].weights.push_back(static_cast<std::uint32_t>(program_.weights.size()));
      program_.weights.push_back(std::move(inner.field_weights[f][iteration]));
    }
  }
  loop.body = std::move(inner.stages);
  program_.forward.push_back({std::move(loop), {}, {}});  // the stages of its body have origins
}

}  // namespace llmc::plan

#include "compiler/plan/lower.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/index_map.h"
#include "compiler/ir/op_info.h"
#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/counted.h"
#include "compiler/support/identifier.h"

namespace llmc::plan {
namespace {

/// Merges diagnostics that differ only in the node. Names the first node and counts the others.
std::vector<Diagnostic> merge_repeated(const std::vector<Diagnostic>& all) {
  std::vector<Diagnostic> merged;
  std::vector<std::size_t> counts;
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> first;
  for (const Diagnostic& d : all) {
    const auto [at, added] = first.try_emplace({d.file, d.op, d.message}, merged.size());
    if (!added) {
      ++counts[at->second];
      continue;
    }
    merged.push_back(d);
    counts.push_back(0);
  }
  for (std::size_t i = 0; i < merged.size(); ++i) {
    if (counts[i] > 0) merged[i].message += " (" + counted(counts[i], "more node") + ")";
  }
  return merged;
}

/// Returns whether a reshape keeps the order of each token's elements: the number of elements
/// before the token dim does not change.
bool keeps_rows(const ir::TensorType& from, const ir::TensorType& to) {
  const auto before = [](const ir::TensorType& type) -> std::optional<std::int64_t> {
    const auto axis = row_axis(type);
    if (!axis) return std::nullopt;
    std::int64_t count = 1;
    for (std::size_t i = 0; i < *axis; ++i) count *= *type.dims[i].constant();
    return count;
  };
  const auto a = rows_of(from), b = rows_of(to);
  return a && b && a->width == b->width && before(from) == before(to);
}

}  // namespace

std::optional<Rows> rows_of(const ir::TensorType& type) {
  const auto dims = row_dims(type);
  if (!dims || product(*dims).bound() <= 0) return std::nullopt;
  return Rows{static_cast<std::uint64_t>(product(*dims).bound()), !row_axis(type)};
}

Lowerer::Lowerer(const ir::Graph& graph, const LowerOptions& options)
    : graph_(graph), options_(options) {}

const ValueBinding& Lowerer::input(Scope& scope, const ir::Node& node, std::size_t index) {
  static const ValueBinding nothing;
  return present(node, index) ? scope.bindings[node.inputs[index].index] : nothing;
}

bool Lowerer::present(const ir::Node& node, std::size_t index) const {
  return index < node.inputs.size() && node.inputs[index].exists();
}

bool Lowerer::is_pending(Scope& scope, const ir::Node& node, std::size_t index) {
  return std::holds_alternative<NestBinding>(input(scope, node, index));
}

std::optional<BufferId> Lowerer::activation(Scope& scope, const ir::Node& node, std::size_t index) {
  if (!present(node, index)) return std::nullopt;
  const ir::ValueId value = node.inputs[index];
  if (computed_in(scope.graph.value(value).type.element) != ir::ElementType::kF32)
    return std::nullopt;
  return stored(scope, value);
}

BufferId Lowerer::new_buffer(const std::string& name, Rows rows) {
  std::string unique =
      numbered(name, [&](const std::string& next) { return buffer_names_.insert(next).second; });
  program_.buffers.push_back({std::move(unique), rows.width, rows.one_row});
  return BufferId{static_cast<std::uint32_t>(program_.buffers.size() - 1)};
}

std::optional<BufferId> Lowerer::output_buffer(Scope& scope, const ir::Node& node,
                                               const std::string& name) {
  const ir::ValueId result = node.outputs.front();
  const ir::TensorType& type = scope.graph.value(result).type;
  if (is_plain_) {
    if (const auto output = scope.output(result)) return BufferId{*output};
    const std::string& value = scope.graph.value(result).name;
    return BufferId{scope.scratch(node, type.element, product(*scope.nests.dims_of(result)),
                                  value.empty() ? name : value,
                                  ir::to_string(type) + "  " + value)};
  }
  const auto rows = rows_of(type);
  if (!rows) {
    unsupported(node, fmt::format("its result {} is not rows of tokens", ir::to_string(type)));
    return std::nullopt;
  }
  return new_buffer(name, *rows);
}

std::optional<BufferId> Lowerer::in_place_or_new(Scope& scope, const ir::Node& node,
                                                 std::size_t operand, BufferId x,
                                                 const std::string& name) {
  return is_last_use(scope, node.inputs[operand]) ? x : output_buffer(scope, node, name);
}

bool Lowerer::is_last_use(Scope& scope, ir::ValueId value) {
  const auto* mine = std::get_if<Activation>(&binding(scope, value));
  if (!mine || mine->pinned) return false;
  for (std::uint32_t i = 0; i < scope.bindings.size(); ++i) {
    const auto* other = std::get_if<Activation>(&scope.bindings[i]);
    const auto* windows = std::get_if<WindowsBinding>(&scope.bindings[i]);
    const bool same = other && other->buffer == mine->buffer;
    const bool read = windows && windows->source == mine->buffer;
    if (!same && !read && !scope.nests.reads({i}, mine->buffer.index)) continue;
    if ((same && other->pinned) || scope.uses.is_graph_output({i})) return false;
    for (const ir::NodeId user : scope.uses.users({i})) {
      if (user.index > scope.node) return false;
    }
  }
  return true;
}

void Lowerer::bind(Scope& scope, ir::ValueId value, BufferId buffer, bool pinned) {
  binding(scope, value) = Activation{buffer, pinned};
}

void Lowerer::emit(Scope& scope, const ir::Node& node, decltype(Stage::op) op, std::string comment,
                   bool head) {
  Stage stage{std::move(op), node.origin, std::move(comment)};
  if (scope.loop) {
    scope.stages.push_back(std::move(stage));
  } else {
    (head ? program_.head : program_.forward).push_back(std::move(stage));
  }
}

void Lowerer::unsupported(const ir::Node& node, std::string message, std::string hint) {
  diagnostics_.push_back(
      ir::node_failure(ErrorKind::kUnsupported, node, std::move(message), std::move(hint)));
}

void Lowerer::input_is_no_activation(const Scope& scope, const ir::Node& node) {
  unsupported(node,
              fmt::format("its input {} is not a row of floats for each token",
                          ir::to_string(scope.graph.value(node.inputs[0]).type)),
              "compile the graph as a function of its inputs: --function");
}

void Lowerer::bad_input(const ir::Node& node, std::string message, std::string hint) {
  unsupported(node, std::move(message), std::move(hint));
  diagnostics_.back().kind = ErrorKind::kBadInput;
}

void Lowerer::lower_node(Scope& scope, const ir::Node& node) {
  const auto fail = [&] {
    for (const ir::ValueId output : node.outputs)
      if (output.exists() && std::holds_alternative<NoBinding>(binding(scope, output)))
        scope.failed.insert(output.index);
  };
  // Constants are recorded even if no node needs them.
  if (!ir::op_as<ir::ConstantOp>(&node) && !scope.nests.is_needed(node)) return fail();
  bool consequence = false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    consequence = consequence || (present(node, i) && !is_shape_operand(node, i) &&
                                  scope.failed.contains(node.inputs[i].index));
  }
  // The body of a loop is lowered to report its own errors.
  if (consequence && !ir::op_as<ir::Loop>(&node)) return fail();
  const std::size_t before = diagnostics_.size();
  if (note_of_call(scope, node) || !lower_to_kernel(scope, node)) {
    LLMC_CHECK(diagnostics_.size() == before);
    lower_to_nests(scope, node);
  }
  if (consequence) diagnostics_.resize(std::max(before, known_causes_));
  if (!diagnostics_.empty()) fail();
}

bool Lowerer::note_of_call(Scope& scope, const ir::Node& node) {
  const auto has_rows = [&](ir::ValueId value) {
    return value.exists() && row_axis(scope.graph.value(value).type);
  };
  if (scope.of_call.empty() || std::ranges::any_of(node.inputs, has_rows) ||
      std::ranges::any_of(node.outputs, has_rows) ||
      std::ranges::none_of(node.inputs,
                           [&](ir::ValueId value) { return scope.of_call.contains(value.index); }))
    return false;
  for (const ir::ValueId output : node.outputs) scope.of_call.insert(output.index);
  return true;
}

void Lowerer::lower_to_nests(Scope& scope, const ir::Node& node) {
  const Status status = scope.nests.lower(node);
  if (!status.ok()) {
    for (const Diagnostic& d : status.error().diagnostics()) diagnostics_.push_back(d);
  }
  for (const ir::ValueId output : node.outputs) {
    if (!output.exists() || !scope.nests.has(output)) continue;
    binding(scope, output) = NestBinding{};
    // Decoder kernels would report the operand as invalid, which is only a consequence; nests can
    // read the stored value.
    if (!status.ok() && !is_plain_) scope.failed.insert(output.index);
  }
}

bool Lowerer::lower_to_kernel(Scope& scope, const ir::Node& node) {
  if (const auto* op = ir::op_as<ir::ConstantOp>(&node)) {
    binding(scope, node.outputs[0]) =
        ConstantBinding{op->data, scope.graph.value(node.outputs[0]).name, node.origin};
    return true;
  }
  if (is_plain_) {
    // Loop nests report inconsistent sizes.
    if (!scope.nests.check_sizes(node).ok()) return false;
    if (const auto* op = ir::op_as<ir::Embedding>(&node)) return lower_lookup(scope, node, *op);
    if (const auto* op = ir::op_as<ir::Linear>(&node)) return lower_linear(scope, node, *op), true;
    if (const auto* op = ir::op_as<ir::Unfold>(&node)) return lower_unfold(scope, node, *op);
    return false;
  }
  if (recurrent_nodes_.contains(scope.node) && !scope.loop) {
    const bool has_weights = ir::op_as<ir::Linear>(&node) || ir::op_as<ir::ExpertLinear>(&node) ||
                             ir::op_as<ir::QkvProjection>(&node);
    if (has_weights)
      unsupported(node, "a recurrent state is multiplied by a weight matrix",
                  "states of convolutions, Mamba and linear attention compile; those of RNN, GRU "
                  "and LSTM do not");
    return has_weights;
  }
  if (const auto* op = ir::op_as<ir::Parameter>(&node)) {
    binding(scope, node.outputs[0]) = ParameterBinding{op->index};
    return true;
  }
  if (const auto* op = ir::op_as<ir::Embedding>(&node)) return lower_embedding(scope, node, *op);
  if (const auto* op = ir::op_as<ir::Linear>(&node)) return lower_linear(scope, node, *op), true;
  if (const auto* op = ir::op_as<ir::ExpertLinear>(&node))
    return lower_experts(scope, node, *op), true;
  if (const auto* op = ir::op_as<ir::QkvProjection>(&node))
    return lower_qkv(scope, node, *op), true;
  if (const auto* op = ir::op_as<ir::Attention>(&node))
    return lower_attention(scope, node, *op), true;
  if (const auto* op = ir::op_as<ir::CrossAttention>(&node))
    return lower_cross_attention(scope, node, *op), true;
  if (const auto* op = ir::op_as<ir::RmsNorm>(&node)) {
    return lower_norm(scope, node, ir::NormKind::kRms, op->epsilon);
  }
  if (const auto* op = ir::op_as<ir::LayerNorm>(&node)) {
    return lower_norm(scope, node, ir::NormKind::kLayer, op->epsilon);
  }
  if (const auto* op = ir::op_as<ir::Rope>(&node)) return lower_rope(scope, node, *op), true;
  if (const auto* op = ir::op_as<ir::GatedActivation>(&node)) return lower_gated(scope, node, *op);
  if (const auto* op = ir::op_as<ir::Binary>(&node)) return lower_binary(scope, node, *op);
  if (const auto* op = ir::op_as<ir::Unary>(&node)) return lower_unary(scope, node, *op);
  if (const auto* op = ir::op_as<ir::Loop>(&node)) return lower_loop(scope, node, *op), true;
  if (ir::op_as<ir::Gather>(&node) || ir::op_as<ir::Slice>(&node)) {
    return lower_row_selection(scope, node);
  }
  const bool view =
      ir::is_reshape(node.op) || ir::op_as<ir::Cast>(&node) || ir::op_as<ir::Transpose>(&node);
  return view && lower_view(scope, node);
}

bool Lowerer::lower_view(Scope& scope, const ir::Node& node) {
  const ir::TensorType& from = scope.graph.value(node.inputs[0]).type;
  const ir::TensorType& to = scope.graph.value(node.outputs[0]).type;
  const ValueBinding& source = input(scope, node, 0);
  const bool is_activation = std::holds_alternative<Activation>(source);
  const bool is_constant = std::holds_alternative<ConstantBinding>(source);
  if (std::holds_alternative<NestBinding>(source)) return false;
  const auto* cast = ir::op_as<ir::Cast>(&node);
  if (cast && is_activation && cast->to != ir::ElementType::kF32) return false;
  if (const auto* transpose = ir::op_as<ir::Transpose>(&node)) {
    if (transpose->perm.empty() && from.rank() > 1) return false;  // reverses the dims
    // The elements stay in place only if dims with more than one element keep their order. The
    // token dim is the outermost dim of every buffer.
    std::int64_t last = -1;
    for (const std::int64_t axis : transpose->perm) {
      const ir::Dim& dim = from.dims[static_cast<std::size_t>(axis)];
      if (dim == ir::Dim(1) || (is_activation && dim == ir::Dim::symbol("seq"))) continue;
      if (axis < last) return false;
      last = axis;
    }
  } else if (is_activation && !cast && !keeps_rows(from, to)) {
    return false;
  }
  if (is_constant && !cast) {
    // The binding keeps the dims of the constant. They must have the rank of the result, at most 2,
    // or the result must be a vector of the same elements. Readers check rank and size.
    const auto& dims = std::get<ConstantBinding>(source).data->dims();
    const auto elements = ir::element_count(to);
    const bool same = dims.size() <= 2 && dims.size() == to.rank();
    if (!same &&
        (elements != std::get<ConstantBinding>(source).data->element_count() || to.rank() > 1))
      return false;
  }
  binding(scope, node.outputs[0]) = ValueBinding(source);
  return true;
}

void Lowerer::bind_decoder_inputs(Scope& scope) {
  for (const ir::ValueId id : graph_.inputs()) {
    const ir::Value& input = graph_.value(id);
    const auto layer = static_cast<std::uint32_t>(input.layer);
    switch (input.kind) {
      case ir::InputKind::kTokenIds:
        binding(scope, id) = TokensBinding{};
        break;
      case ir::InputKind::kPositions:
        binding(scope, id) = PositionsBinding{};
        break;
      case ir::InputKind::kPositionAxes:
        binding(scope, id) = PositionAxesBinding{
            static_cast<std::uint32_t>(input.type.dims[0].constant().value_or(0))};
        break;
      case ir::InputKind::kLastPosition:
        binding(scope, id) = LastPositionBinding{};
        scope.of_call.insert(id.index);
        break;
      case ir::InputKind::kSource:
        binding(scope, id) = SourceBinding{layer};
        program_.sources = std::max(program_.sources, layer + 1);
        break;
      case ir::InputKind::kAttentionCache:
        binding(scope, id) = PastBinding{layer};
        program_.layers = std::max(program_.layers, layer + 1);
        break;
      case ir::InputKind::kRecurrent:
        bind_state(scope, id);
        break;
      case ir::InputKind::kNone:
      case ir::InputKind::kMask:  // a node that reads it has no operand
        break;
    }
  }
  recurrent_nodes_ = nodes_of_recurrences(scope);
}

Status Lowerer::finish_decoder(Scope& scope) {
  if (!graph_.outputs().empty() &&
      std::holds_alternative<NestBinding>(binding(scope, graph_.outputs()[0]))) {
    stored(scope, graph_.outputs()[0]);
    if (!diagnostics_.empty()) return ok_status();  // run() reports them
  }
  const auto refuse = [](std::string message) {
    return Diagnostic{.kind = ErrorKind::kUnsupported,
                      .message = std::move(message),
                      .hint = "llmc compiles decoders: token ids and a cache in, logits out"};
  };
  const auto* logits = graph_.outputs().empty()
                           ? nullptr
                           : std::get_if<Activation>(&binding(scope, graph_.outputs()[0]));
  if (!logits) return refuse("the model's first output is not computed logits");
  program_.logits = logits->buffer;
  if (!program_.hidden.exists() && !split_head(logits->buffer)) {
    return refuse("the logits are not the result of a linear layer over the last hidden rows");
  }
  if (program_.layers == 0 ? program_.states.empty() : program_.attention.heads == 0) {
    return refuse("the model has no attention layer with a cache");
  }
  LLMC_RETURN_IF_ERROR(finish_states(scope));
  if (program_.logits == program_.row) return refuse("the logits are the hidden state itself");
  program_.forward.insert(program_.forward.begin(), std::make_move_iterator(prologue_.begin()),
                          std::make_move_iterator(prologue_.end()));
  program_.hidden_width = program_.buffers[program_.hidden.index].width;
  program_.vocabulary = program_.buffers[program_.logits.index].width;
  split_codes_of_head(program_);
  return ok_status();
}

Result<Program> Lowerer::run() {
  program_.entry = options_.entry;
  if (is_plain_) {
    note_open_dims();  // the scope's loop nests use the sizes
    LLMC_RETURN_IF_ERROR(check_plain_shapes());
  } else {
    LLMC_RETURN_IF_ERROR(check_splits(graph_));
  }
  Scope scope(*this, graph_, nullptr);
  if (is_plain_) {
    bind_ports(scope);
  } else {
    bind_decoder_inputs(scope);
  }
  for (; scope.node < graph_.nodes().size(); ++scope.node) {
    const ir::Node& node = graph_.nodes()[scope.node];
    lower_node(scope, node);
    if (stores_sources() && diagnostics_.empty()) store_sources(scope, node);
  }
  if (diagnostics_.empty()) {
    if (is_plain_) {
      finish_ports(scope);
    } else {
      LLMC_RETURN_IF_ERROR(finish_decoder(scope));
    }
  }
  if (!diagnostics_.empty()) return Error(merge_repeated(diagnostics_));
  LLMC_TRY(const std::uint64_t bytes, lay_out(program_.weights));
  (void)bytes;
  return std::move(program_);
}

Result<Program> lower(const ir::Graph& graph, const LowerOptions& options) {
  return Lowerer(graph, options).run();
}

}  // namespace llmc::plan

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/op_info.h"
#include "compiler/plan/lower.h"
#include "compiler/support/check.h"
#include "compiler/support/identifier.h"

/// Implements the interface that loop nests use (NestHost).
namespace llmc::plan {
namespace {

std::string description(const ir::Graph& graph, const ir::Node& node) {
  std::string text(ir::op_name(node.op));
  for (const ir::ValueId output : node.outputs)
    if (output.exists()) text += "  " + ir::to_string(graph.value(output).type);
  return text;
}

/// Returns the last component of a value's path, without the suffix that exporters add.
std::string_view short_name(std::string_view name) {
  constexpr std::string_view kSuffix = "_output_0";
  if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
  const auto slash = name.rfind('/');
  return slash == name.npos ? name : name.substr(slash + 1);
}

}  // namespace

std::string Lowerer::unique_name(std::string_view wanted, std::string_view otherwise) {
  std::string name = resembling_identifier(wanted);
  if (name.empty()) name = otherwise;
  // The key without underscores must be unique too: "a_b" and "ab" would both become the constant
  // kAb.
  const auto is_new = [&](std::string key) {
    std::erase(key, '_');
    return names_.try_emplace(std::move(key), 1).second;
  };
  if (is_new(name)) return name;
  int& last = suffixes_[name];
  std::string numbered;
  do numbered = fmt::format("{}_v{}", name, ++last + 1);
  while (!is_new(numbered));
  return numbered;
}

ExpressionPtr Lowerer::Scope::outside(ir::ValueId value, const Sizes& dims) {
  const ir::ElementType type = graph.value(value).type.element;
  const ValueBinding& at = bindings[value.index];
  const auto of_row = [&](Place place) {
    const auto [of_place, added] = lowerer.row_buffers_.try_emplace(
        place, static_cast<std::uint32_t>(lowerer.program_.buffers.size()));
    if (added)
      lowerer.program_.buffers.push_back({.name = place == Place::kTokens      ? "token"
                                                  : place == Place::kPositions ? "position"
                                                                               : "last_position",
                                          .width = 1,
                                          .place = place,
                                          .element = ir::ElementType::kI32});
    const ExpressionPtr number = load(ir::ElementType::kI32, View::dense(of_place->second, dims));
    return type == ir::ElementType::kI32 ? number : cast(type, number);
  };
  if (const auto* activation = std::get_if<Activation>(&at))
    return load(lowerer.program_.buffers[activation->buffer.index].element,
                View::dense(activation->buffer.index, dims));
  if (const auto* state = std::get_if<StateBinding>(&at))
    return load(type, View::dense(lowerer.program_.states[state->slot].before.index, dims));
  if (const auto* in = std::get_if<InputBinding>(&at))
    return load(type, View::dense(in->buffer, dims));
  if (std::holds_alternative<TokensBinding>(at)) return of_row(Place::kTokens);
  if (std::holds_alternative<PositionsBinding>(at)) return of_row(Place::kPositions);
  if (std::holds_alternative<LastPositionBinding>(at)) return of_row(Place::kLastPositions);
  if (const auto* parameter = std::get_if<ParameterBinding>(&at)) {
    const WeightRef ref = lowerer.layer_data(*this, *parameter);
    return load(type,
                View::dense(weight_buffer(ref, type, unsigned_of(product(dims).bound())), dims));
  }
  return nullptr;
}

ir::ConstantPtr Lowerer::Scope::constant(ir::ValueId value) const {
  const auto* constant = std::get_if<ConstantBinding>(&bindings[value.index]);
  return constant ? constant->data : nullptr;
}

std::uint32_t Lowerer::Scope::weight_buffer(WeightRef weight, ir::ElementType element,
                                            std::uint64_t count) {
  const auto [it, added] = weight_buffers.try_emplace({weight.index, weight.per_layer});
  if (added) {
    it->second = static_cast<std::uint32_t>(lowerer.program_.buffers.size());
    lowerer.program_.buffers.push_back({.name = {},
                                        .width = count,
                                        .place = Place::kWeight,
                                        .element = element,
                                        .weight = weight,
                                        .size = static_cast<std::int64_t>(count)});
  }
  return it->second;
}

std::uint32_t Lowerer::Scope::data(ir::ConstantPtr content, WeightUse use, ir::ValueId value) {
  const std::string& name = graph.value(value).name;
  const ir::ElementType element = content->element();
  PackedWeight weight{.use = use, .data = content, .name = name};
  weight.rows = unsigned_of(content->element_count());
  weight.columns = 1;
  if (use != WeightUse::kData) {
    const bool transposed = use == WeightUse::kTransposedPanels;
    weight.rows = unsigned_of(content->dims()[transposed ? 1 : 0]);
    weight.columns = unsigned_of(content->dims()[transposed ? 0 : 1]);
  }
  const std::size_t known = lowerer.program_.weights.size();
  const WeightRef ref = lowerer.global_weight(std::move(weight));
  if (lowerer.program_.weights.size() > known) {
    PackedWeight& added = lowerer.program_.weights.back();
    added.label = lowerer.is_plain_ ? lowerer.unique_name(name, "weight")
                                    : lowerer.unique_global_label("constant");
    added.comment = ir::to_string(graph.value(value).type) + "  " + name;
  }
  return weight_buffer(ref, element, unsigned_of(content->element_count()));
}

std::uint32_t Lowerer::Scope::scratch(const ir::Node& by, ir::ElementType element,
                                      const Size& count, const std::string& name,
                                      std::string comment) {
  Program& program = lowerer.program_;
  Buffer buffer{.width = unsigned_of(count.bound()),
                .element = element,
                .comment = std::move(comment),
                .size = count};
  if (lowerer.is_plain_) {
    buffer.one_row = true;
    buffer.name = lowerer.unique_name(name, "value");
  } else {
    // The number makes the name unique among both buffers and weights.
    buffer.name =
        fmt::format("{}_v{}", resembling_identifier(short_name(name)), ++lowerer.nest_buffers_);
    if (buffer.name.starts_with('_')) buffer.name = "value" + buffer.name;
    const auto rows = rows_of(graph.value(by.outputs[0]).type);
    buffer.one_row = !loop && rows && rows->one_row && !of_call.contains(by.outputs[0].index);
  }
  program.buffers.push_back(std::move(buffer));
  return static_cast<std::uint32_t>(program.buffers.size() - 1);
}

std::optional<std::uint32_t> Lowerer::Scope::output(ir::ValueId value) const {
  const auto it = outputs.find(value);
  return it == outputs.end() ? std::nullopt : std::optional(it->second);
}

Size Lowerer::Scope::size(std::uint32_t buffer) const {
  const Buffer& found = lowerer.program_.buffers[buffer];
  return lowerer.is_plain_ && found.place != Place::kWeight
             ? found.size
             : Size(static_cast<std::int64_t>(found.width));
}

std::int64_t Lowerer::Scope::workers() const {
  return lowerer.is_plain_ ? lowerer.options_.threads_max : 1;
}

void Lowerer::Scope::emit(const ir::Node& of, Stage stage) {
  stage.comment = description(graph, of);
  if (loop) {
    stages.push_back(std::move(stage));
    return;
  }
  Program& program = lowerer.program_;
  const Access used = access(stage);
  const bool head = !lowerer.is_plain_ && program.buffers[used.writes.front().index].one_row;
  for (const BufferId id : used.reads) {
    const Buffer& buffer = program.buffers[id.index];
    if (lowerer.is_plain_ || buffer.place == Place::kWeight || buffer.one_row == head) continue;
    return lowerer.unsupported(of, head ? "the logits read values of all tokens"
                                        : "all tokens read a value of the last one");
  }
  (head ? program.head : program.forward).push_back(std::move(stage));
}

Status Lowerer::check_plain_shapes() const {
  std::vector<Diagnostic> errors;
  const ir::UseDef uses(graph_);
  for (std::uint32_t i = 0; i < graph_.values().size(); ++i) {
    const ir::Value& value = graph_.values()[i];
    if (sizes_of(value.type)) continue;
    const bool known = std::ranges::all_of(
        value.type.dims, [&](const ir::Dim& dim) { return size_of(dim).has_value(); });
    const ir::Node* producer = uses.producer(ir::ValueId{i});
    const bool input = std::ranges::find(graph_.inputs(), ir::ValueId{i}) != graph_.inputs().end();
    if (producer == nullptr && !input) continue;  // no longer the result of a node
    Diagnostic d{.kind = ErrorKind::kUnsupported,
                 .file = producer ? producer->origin.file : "",
                 .node = producer ? producer->origin.node : value.name,
                 .op = producer ? std::string(ir::op_name(producer->op)) : "input",
                 .message = "its shape " + ir::to_string(value.type) +
                            (symbols_.empty() ? " has dims without a size"
                                              : " does not follow from the sizes of the inputs"),
                 .hint = symbols_.empty() ? "give the sizes with --dim name=value"
                                          : "give numbers instead of ranges with --dim name=value"};
    if (known && std::ranges::any_of(value.type.dims, [&](const ir::Dim& dim) {
          return size_of(dim)->least() < 0;
        })) {
      d.kind = ErrorKind::kUsage;
      d.message = fmt::format("its shape {} has a negative size for the smallest sizes given",
                              ir::to_string(value.type));
      d.hint = "give ranges that begin later with --dim name=smallest..largest";
      return d;
    }
    if (known) {
      // The values computed from it are too large as well: one error is sufficient.
      if (!options_.open_dims.empty()) d.kind = ErrorKind::kUsage;
      d.message = fmt::format("its shape {} is too large: a tensor has at most 2^40 elements",
                              ir::to_string(value.type));
      d.hint = "give smaller sizes with --dim name=value";
      return d;
    }
    // The shapes that depend on it are not fixed either: the first errors are sufficient.
    if (errors.size() < 8) errors.push_back(std::move(d));
  }
  if (!errors.empty()) return Error(std::move(errors));
  return ok_status();
}

void Lowerer::bind_ports(Scope& scope) {
  // Constants that the emitted source uses itself (emit/run_entry.cpp, llmc/graph_call.h).
  for (const char* const name :
       {"work", "done", "badoptions", "missingpointer", "otherweights", "indexoutofrange"})
    names_.emplace(name, 1);
  const auto add = [&](Port port, Place place, std::size_t slot) {
    port.buffer = static_cast<std::uint32_t>(program_.buffers.size());
    program_.buffers.push_back({.name = {},
                                .width = unsigned_of(product(port.dims).bound()),
                                .one_row = true,
                                .place = place,
                                .slot = static_cast<std::uint32_t>(slot),
                                .element = port.element,
                                .size = product(port.dims)});
    return port;
  };
  for (const ir::ValueId input : graph_.inputs()) {
    const ir::Value& value = graph_.value(input);
    program_.inputs.push_back(add({value.name, value.type.element, *sizes_of(value.type)},
                                  Place::kInput, program_.inputs.size()));
    binding(scope, input) = InputBinding{program_.inputs.back().buffer};
  }
  for (const ir::ValueId output : graph_.outputs()) {
    const ir::Value& value = graph_.value(output);
    Port port{value.name, value.type.element, *sizes_of(value.type)};
    if (stores_sources()) port = source_port(std::move(port));
    program_.outputs.push_back(add(std::move(port), Place::kOutput, program_.outputs.size()));
    if (!stores_sources()) scope.outputs.try_emplace(output, program_.outputs.back().buffer);
  }
}

void Lowerer::finish_ports(Scope& scope) {
  if (stores_sources()) return;  // store_sources() wrote the outputs
  for (std::size_t i = 0; i < program_.outputs.size(); ++i)
    scope.nests.finish_output(graph_.outputs()[i], program_.outputs[i].buffer);
}

Port Lowerer::source_port(Port port) {
  const Sizes& dims = port.dims;
  LLMC_CHECK(dims.size() == 4 && dims[1].is_constant() && dims[3].is_constant());
  const KvFormats formats = options_.source_formats;
  program_.source_rows = dims[2];
  const std::uint64_t bytes =
      source_layer_bytes(unsigned_of(dims[1].bound()), unsigned_of(dims[3].bound()),
                         unsigned_of(dims[2].bound()), formats);
  return {port.name, ir::ElementType::kU8, {static_cast<std::int64_t>(bytes)}};
}

void Lowerer::store_sources(Scope& scope, const ir::Node& node) {
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    const ir::ValueId value = graph_.outputs()[i];
    if (std::ranges::find(node.outputs, value) == node.outputs.end()) continue;
    const Sizes& dims = *scope.nests.dims_of(value);
    const std::uint64_t kv_heads = unsigned_of(dims[1].bound());
    SourceStoreStage stage{.shape = {kv_heads, kv_heads, unsigned_of(dims[3].bound())},
                           .formats = options_.source_formats,
                           .x = {scope.nests.store_whole(value)},
                           .out = {program_.outputs[i].buffer},
                           .rows = dims[2],
                           .max_rows = unsigned_of(dims[2].bound())};
    scope.emit(node, Stage{std::move(stage), node.origin, {}});
  }
}

}  // namespace llmc::plan

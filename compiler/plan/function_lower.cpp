#include "compiler/plan/function_lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "compiler/ir/op_info.h"
#include "compiler/support/check.h"

namespace llmc::plan {
namespace {

/// Beyond it nothing could be allocated; below it no arithmetic on sizes overflows.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;

bool is_elementwise(const ir::Op& op) {
  return std::holds_alternative<ir::Unary>(op) || std::holds_alternative<ir::Binary>(op) ||
         std::holds_alternative<ir::Where>(op) || std::holds_alternative<ir::Cast>(op) ||
         std::holds_alternative<ir::GatedActivation>(op);
}

/// Operators whose one result shows elements of operand 0, each at most once.
bool is_view(const ir::Op& op) {
  return std::holds_alternative<ir::Reshape>(op) || std::holds_alternative<ir::Transpose>(op) ||
         std::holds_alternative<ir::Slice>(op) || std::holds_alternative<ir::Squeeze>(op) ||
         std::holds_alternative<ir::Unsqueeze>(op);
}

std::optional<Sizes> sizes_of(const ir::TensorType& type) {
  Sizes dims;
  std::int64_t nonzero = 1;
  for (const ir::Dim& dim : type.dims) {
    const auto size = dim.constant();
    if (!size || *size < 0 || *size > kMaxElements) return std::nullopt;
    dims.push_back(*size);
    nonzero *= std::max<std::int64_t>(*size, 1);
    if (nonzero > kMaxElements) return std::nullopt;
  }
  return dims;
}

}  // namespace

ir::ElementType computed_in(ir::ElementType element) {
  const bool half = element == ir::ElementType::kF16 || element == ir::ElementType::kBF16;
  return half ? ir::ElementType::kF32 : element;
}

std::uint64_t FunctionBuffer::bytes() const {
  if (layout == WeightLayout::kRowMajor || !data)
    return static_cast<std::uint64_t>(count) * ir::element_bytes(element);
  const auto& dims = data->dims();
  const bool turned = layout == WeightLayout::kTransposedPanels;
  const auto k = static_cast<std::uint64_t>(dims[turned ? 1 : 0]);
  const auto n = static_cast<std::uint64_t>(dims[turned ? 0 : 1]);
  return (n + 15) / 16 * 16 * k * ir::element_bytes(element);
}

std::uint64_t FunctionPort::bytes() const {
  return static_cast<std::uint64_t>(product(dims)) * ir::element_bytes(element);
}

Diagnostic FunctionLowering::unsupported(const ir::Node& node, std::string message) const {
  return Diagnostic{.kind = ErrorKind::kUnsupported,
                    .file = node.origin.file,
                    .node = node.origin.node,
                    .op = std::string(ir::op_name(node.op)),
                    .message = std::move(message)};
}

std::string FunctionLowering::describe(const ir::Node& node) const {
  std::string text(ir::op_name(node.op));
  for (const ir::ValueId output : node.outputs)
    if (output.exists()) text += "  " + ir::to_string(graph_.value(output).type);
  return text + "  " + node.origin.node;
}

Status FunctionLowering::prepare_values() {
  std::vector<Diagnostic> errors;
  for (std::uint32_t i = 0; i < graph_.values().size(); ++i) {
    const ir::Value& value = graph_.values()[i];
    auto dims = sizes_of(value.type);
    if (dims) {
      values_[ir::ValueId{i}].dims = *std::move(dims);
      continue;
    }
    const ir::Node* producer = uses_.producer(ir::ValueId{i});
    const bool input = std::ranges::find(graph_.inputs(), ir::ValueId{i}) != graph_.inputs().end();
    if (producer == nullptr && !input) continue;  // of no node any more
    const bool fixed = std::ranges::all_of(
        value.type.dims, [](const ir::Dim& dim) { return dim.constant().has_value(); });
    Diagnostic d{.kind = ErrorKind::kUnsupported,
                 .file = producer ? producer->origin.file : "",
                 .node = producer ? producer->origin.node : value.name,
                 .op = producer ? std::string(ir::op_name(producer->op)) : "input",
                 .message = "its shape " + ir::to_string(value.type) +
                            " is not fixed, and a function has fixed shapes",
                 .hint = "give the sizes with --dim name=value"};
    if (fixed) {
      // The values that follow from it are too large as well: one error is enough.
      d.message = fmt::format(
          "its shape {} is too large: a function's tensor has at most 2^{} "
          "elements",
          ir::to_string(value.type), std::countr_zero(std::uint64_t{kMaxElements}));
      d.hint = "give smaller sizes with --dim name=value";
      return d;
    }
    // What follows from it is not fixed either: the first ones are enough.
    if (errors.size() < 8) errors.push_back(std::move(d));
  }
  if (!errors.empty()) return Error(std::move(errors));
  return ok_status();
}

void FunctionLowering::find_sinks() {
  for (std::size_t i = graph_.nodes().size(); i-- > 0;) {
    for (const ir::ValueId value : graph_.nodes()[i].outputs) {
      if (!value.exists()) continue;
      sinks_[value] = value;
      const auto& users = uses_.users(value);
      if (uses_.is_graph_output(value) || users.empty()) continue;
      std::optional<ir::ValueId> common;
      bool one = true;
      for (const ir::NodeId id : users) {
        const ir::Node& user = graph_.node(id);
        const ir::ValueId out = user.outputs[0];
        const bool moves = is_view(user.op) && user.inputs[0] == value;
        // A value read for several elements of the result (broadcast) is computed once and stored.
        if ((!is_elementwise(user.op) && !(moves && users.size() == 1)) ||
            (!moves && product(dims(out)) != product(dims(value))) ||
            (common && *common != sinks_[out])) {
          one = false;
          break;
        }
        common = sinks_[out];
      }
      if (one) sinks_[value] = *common;
    }
  }
}

std::string FunctionLowering::unique_name(Place place, std::string_view wanted) {
  std::string name;
  for (const char c : wanted.substr(0, 48)) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    if (letter || (digit && !name.empty())) {
      name += static_cast<char>(letter ? (c | 0x20) : c);
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  if (name.empty()) name = place == Place::kWeights ? "weight" : "value";
  // Unique without underscores too: "a_b" and "ab" would be the same constant kAb.
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

std::uint32_t FunctionLowering::add_buffer(FunctionBuffer buffer) {
  program_.buffers.push_back(std::move(buffer));
  return static_cast<std::uint32_t>(program_.buffers.size() - 1);
}

std::uint32_t FunctionLowering::scratch(ir::ElementType element, std::int64_t count,
                                        const std::string& name) {
  FunctionBuffer buffer;
  buffer.element = element;
  buffer.count = count;
  buffer.name = unique_name(Place::kArena, name);
  return add_buffer(std::move(buffer));
}

std::uint32_t FunctionLowering::weight(ir::ConstantPtr data, WeightLayout layout,
                                       ir::ValueId value) {
  const auto key = std::pair(data.get(), layout);
  if (const auto it = weights_.find(key); it != weights_.end()) return it->second;
  const std::string& name = graph_.value(value).name;
  FunctionBuffer buffer;
  buffer.place = Place::kWeights;
  buffer.element = data->element();
  buffer.count = data->element_count();
  buffer.name = unique_name(Place::kWeights, name);
  buffer.comment = ir::to_string(graph_.value(value).type) + "  " + name;
  buffer.data = std::move(data);
  buffer.layout = layout;
  return weights_[key] = add_buffer(std::move(buffer));
}

const ExpressionPtr& FunctionLowering::expression(ir::ValueId value) {
  Lowered& lowered = values_.at(value);
  if (!lowered.expression) {
    const ir::ConstantPtr data = constant(value);
    LLMC_CHECK(data != nullptr);
    const std::vector<std::byte> bytes =
        data->byte_count() <= 64 ? data->bytes() : std::vector<std::byte>{};
    const std::size_t size = ir::element_bytes(data->element());
    bool splat = !bytes.empty();
    for (std::size_t i = size; i < bytes.size() && splat; ++i) splat = bytes[i] == bytes[i - size];
    if (splat) {
      lowered.expression = literal(ir::make_constant(
          data->element(), {}, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}));
    } else {
      const std::uint32_t buffer = weight(data, WeightLayout::kRowMajor, value);
      lowered.expression = load(data->element(), View::dense(buffer, lowered.dims));
    }
  }
  return lowered.expression;
}

ExpressionPtr FunctionLowering::broadcast_to(const ir::ValueId value, const Sizes& to) {
  const ExpressionPtr& e = expression(value);
  if (dims(value) == to) return e;  // as it is: what two operands share stays shared
  return *map_views(e, [&](const View& view) { return broadcast(view, to); });
}

bool FunctionLowering::fits_a_loop(const ExpressionPtr& expression) const {
  return nodes_of(expression).size() <= kMaxExpressionNodes;
}

void FunctionLowering::set(ir::ValueId value, ExpressionPtr expression) {
  values_.at(value).expression = std::move(expression);
}

void FunctionLowering::emit(const ir::Node& node, MapStage stage) {
  if (product(stage.target.dims) == 0) return;
  program_.stages.push_back({std::move(stage), describe(node)});
}

void FunctionLowering::emit(const ir::Node& node, KernelStage stage) {
  // The first buffer that a kernel writes is its result; further ones go with it or are its scratch
  // memory, whose size says nothing about whether there is something to compute.
  const auto result = std::ranges::find(stage.buffers, true, &BufferArgument::written);
  LLMC_CHECK(result != stage.buffers.end());
  if (program_.buffers[result->buffer].count == 0) return;
  program_.stages.push_back({std::move(stage), describe(node)});
}

View FunctionLowering::result(ir::ValueId value) {
  const auto slot = output_slot_.find(value);
  const ir::ElementType type = computed_in(element(value));
  std::uint32_t buffer = 0;
  if (slot != output_slot_.end() && type == element(value)) {
    buffer = program_.outputs[slot->second].buffer;
  } else {
    const std::string& name = graph_.value(value).name;
    buffer = scratch(type, product(dims(value)), name.empty() ? "value" : name);
    program_.buffers[buffer].comment =
        ir::to_string(ir::TensorType{type, graph_.value(value).type.dims}) + "  " + name;
  }
  View view = View::dense(buffer, dims(value));
  set(value, load(type, view));
  return view;
}

View FunctionLowering::stored(const ExpressionPtr& expression, const Sizes& dims,
                              ir::ElementType type, const std::string& name) {
  const View target = View::dense(scratch(type, product(dims), name), dims);
  emit(*current_, MapStage{target, expression});
  return target;
}

View FunctionLowering::stored(ir::ValueId value, bool dense) {
  const ExpressionPtr e = expression(value);
  const ir::ElementType type = computed_in(element(value));
  if (e->kind == Expression::Kind::kLoad && e->type == type && (!dense || e->view.is_dense()))
    return e->view;
  if (e->kind == Expression::Kind::kLoad) {
    // A copy for whoever needs it in this form; the view stays what it is for the others.
    return stored(e, dims(value), type, graph_.value(value).name + "_copy");
  }
  const View target = result(value);
  emit(*current_, MapStage{target, e});
  return target;
}

FunctionLowering::Stored FunctionLowering::stored_as_it_is(ir::ValueId value) {
  const ExpressionPtr e = expression(value);
  if (e->kind == Expression::Kind::kLoad && e->view.is_dense()) return {e->view, e->type};
  const View view = stored(value);
  return {view, computed_in(element(value))};
}

Result<std::vector<std::int64_t>> FunctionLowering::integers(const ir::Node& node,
                                                             std::size_t operand) const {
  const ir::ConstantPtr data = constant(node.inputs[operand]);
  if (!data)
    return unsupported(node, fmt::format("operand {} decides the shape or order of the result and "
                                         "is not known when compiling",
                                         operand));
  return ir::to_integers(*data);
}

FunctionLowering::AxisSplit FunctionLowering::around(const Sizes& dims, std::size_t axis) {
  AxisSplit split;
  for (std::size_t i = 0; i < axis; ++i) split.outer *= dims[i];
  split.size = dims[axis];
  for (std::size_t i = axis + 1; i < dims.size(); ++i) split.inner *= dims[i];
  return split;
}

Status FunctionLowering::finish_outputs() {
  for (std::uint32_t i = 0; i < program_.outputs.size(); ++i) {
    const ir::ValueId value = graph_.outputs()[i];
    const std::uint32_t buffer = program_.outputs[i].buffer;
    const View target = View::dense(buffer, dims(value));
    const ExpressionPtr e = expression(value);
    if (e->kind == Expression::Kind::kLoad && e->view.buffer == buffer) {
      LLMC_CHECK(e->view.is_dense() && e->view.offset == 0);
      continue;
    }
    const ir::Node* producer = uses_.producer(value);
    const ir::Node copy{ir::Unary{}, {value}, {value}, producer ? producer->origin : ir::Origin{}};
    emit(copy, MapStage{target, broadcast_to(value, dims(value))});
  }
  return ok_status();
}

Result<FunctionProgram> FunctionLowering::run() {
  LLMC_RETURN_IF_ERROR(prepare_values());
  for (const ir::Value& value : inputs_) {
    const auto size = sizes_of(value.type);
    if (!size)
      return Diagnostic{.kind = ErrorKind::kUnsupported,
                        .node = value.name,
                        .op = "input",
                        .message = "its shape " + ir::to_string(value.type) + " is not fixed",
                        .hint = "give the sizes with --dim name=value"};
    FunctionBuffer buffer;
    buffer.place = Place::kInput;
    buffer.slot = static_cast<std::uint32_t>(program_.inputs.size());
    buffer.element = value.type.element;
    buffer.count = product(*size);
    program_.inputs.push_back({value.name, value.type.element, *size, add_buffer(buffer)});
  }
  std::map<std::string_view, const FunctionPort*> ports;
  for (const FunctionPort& port : program_.inputs) ports.emplace(port.name, &port);
  for (const ir::ValueId input : graph_.inputs()) {
    const auto found = ports.find(graph_.value(input).name);
    LLMC_CHECK(found != ports.end());
    const FunctionPort& port = *found->second;
    set(input, load(port.element, View::dense(port.buffer, dims(input))));
  }
  for (const ir::ValueId output : graph_.outputs()) {
    FunctionBuffer buffer;
    buffer.place = Place::kOutput;
    buffer.slot = static_cast<std::uint32_t>(program_.outputs.size());
    buffer.element = element(output);
    buffer.count = product(dims(output));
    output_slot_.try_emplace(output, buffer.slot);
    program_.outputs.push_back(
        {graph_.value(output).name, buffer.element, dims(output), add_buffer(buffer)});
  }
  find_sinks();
  find_attention();

  std::vector<Diagnostic> errors;
  for (const ir::Node& node : graph_.nodes()) {
    current_ = &node;
    if (absorbed_.contains(&node)) continue;
    if (const auto it = attention_.find(&node); it != attention_.end()) {
      lower_attention(node, it->second);
      continue;
    }
    const Status status = std::visit([&](const auto& op) { return lower(node, op); }, node.op);
    if (!status.ok()) {
      for (const Diagnostic& d : status.error().diagnostics()) errors.push_back(d);
      // What reads it must not stumble over a missing expression.
      for (const ir::ValueId output : node.outputs)
        if (output.exists() && !values_.at(output).expression) result(output);
      continue;
    }
    if (std::holds_alternative<ir::ConstantOp>(node.op)) continue;
    for (const ir::ValueId output : node.outputs) {
      if (!output.exists()) continue;
      const ExpressionPtr& e = values_.at(output).expression;
      const bool view = e->operands.empty();
      // A 16-bit float that only the caller reads is rounded where it is computed.
      const bool only_output = computed_in(element(output)) != element(output) &&
                               uses_.users(output).empty() && fits_a_loop(e);
      if (!view && !only_output && (sinks_.at(output) == output || !fits_a_loop(e))) stored(output);
    }
  }
  if (!errors.empty()) return Error(std::move(errors));
  LLMC_RETURN_IF_ERROR(finish_outputs());
  return std::move(program_);
}

}  // namespace llmc::plan

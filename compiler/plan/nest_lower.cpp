#include "compiler/plan/nest_lower.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/index_map.h"
#include "compiler/ir/op_info.h"
#include "compiler/support/check.h"

namespace llmc::plan {
namespace {

bool is_elementwise(const ir::Op& op) {
  return std::holds_alternative<ir::Unary>(op) || std::holds_alternative<ir::Binary>(op) ||
         std::holds_alternative<ir::Where>(op) || std::holds_alternative<ir::Cast>(op) ||
         std::holds_alternative<ir::GatedActivation>(op);
}

/// Returns whether the only result of an operator consists of elements of operand 0, each at most
/// once.
bool is_injective_view(const ir::Op& op) {
  return ir::is_reshape(op) || std::holds_alternative<ir::Transpose>(op) ||
         std::holds_alternative<ir::Slice>(op);
}

}  // namespace

bool is_shape_operand(const ir::Node& node, std::size_t operand) {
  if (std::holds_alternative<ir::ConstantOfShape>(node.op)) return operand == 0;
  if (std::holds_alternative<ir::Slice>(node.op)) return operand > 0;
  return operand == 1 &&
         (std::holds_alternative<ir::Reshape>(node.op) ||
          std::holds_alternative<ir::Expand>(node.op) ||
          std::holds_alternative<ir::Tile>(node.op) || std::holds_alternative<ir::Range>(node.op));
}

std::optional<std::int64_t> per_token(const ir::Dim& dim) {
  const auto& terms = dim.terms();
  if (dim.constant_part() != 0 || terms.size() != 1 || terms.begin()->first != "seq") return {};
  return terms.begin()->second > 0 ? std::optional(terms.begin()->second) : std::nullopt;
}

std::optional<std::size_t> row_axis(const ir::TensorType& type) {
  for (std::size_t i = 0; i < type.dims.size(); ++i)
    if (per_token(type.dims[i])) return i;
  return std::nullopt;
}

std::optional<Sizes> row_dims(const ir::TensorType& type) {
  Sizes dims;
  std::int64_t nonzero = 1;
  bool has_rows = false;
  for (const ir::Dim& dim : type.dims) {
    const auto elements = per_token(dim);
    const bool rows = elements.has_value();
    const std::optional<std::int64_t> size = rows ? elements : dim.constant();
    if (!size || *size < 0 || *size > kMaxElements || (rows && has_rows)) return std::nullopt;
    has_rows = has_rows || rows;
    dims.push_back(*size);
    nonzero *= std::max<std::int64_t>(*size, 1);
    if (nonzero > kMaxElements) return std::nullopt;
  }
  return dims;
}

ir::ElementType computed_in(ir::ElementType element) {
  const bool half = element == ir::ElementType::kF16 || element == ir::ElementType::kBF16;
  return half ? ir::ElementType::kF32 : element;
}

NestLowerer::NestLowerer(const ir::Graph& graph, const ir::UseDef& uses, NestHost& host)
    : graph_(graph), uses_(uses), host_(host) {
  for (std::uint32_t i = 0; i < graph_.values().size(); ++i)
    values_[ir::ValueId{i}].dims = host_.sizes(graph_.values()[i].type);
  find_needed();
  find_sinks();
}

void NestLowerer::find_needed() {
  needed_.resize(graph_.values().size());
  for (const ir::ValueId output : graph_.outputs()) needed_[output.index] = true;
  for (std::size_t i = graph_.nodes().size(); i-- > 0;) {
    const ir::Node& node = graph_.nodes()[i];
    if (!is_needed(node)) continue;
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      if (node.inputs[k].exists() && !is_shape_operand(node, k))
        needed_[node.inputs[k].index] = true;
  }
}

bool NestLowerer::is_needed(const ir::Node& node) const {
  return std::ranges::any_of(
      node.outputs, [&](ir::ValueId value) { return value.exists() && needed_[value.index]; });
}

const Sizes* NestLowerer::dims_of(ir::ValueId value) const {
  const auto& dims = values_.at(value).dims;
  return dims ? &*dims : nullptr;
}

bool NestLowerer::has(ir::ValueId value) const {
  return values_.at(value).expression != nullptr;
}

bool NestLowerer::reads(ir::ValueId value, std::uint32_t buffer) const {
  const ExpressionPtr& e = values_.at(value).expression;
  return e && std::ranges::any_of(nodes_of(e), [&](const Expression* node) {
           return node->kind == Expression::Kind::kLoad && node->view.buffer == buffer;
         });
}

Diagnostic NestLowerer::unsupported(const ir::Node& node, std::string message) const {
  return ir::node_failure(ErrorKind::kUnsupported, node, std::move(message));
}

void NestLowerer::find_sinks() {
  for (std::size_t i = graph_.nodes().size(); i-- > 0;) {
    for (const ir::ValueId value : graph_.nodes()[i].outputs) {
      if (!value.exists()) continue;
      sinks_[value] = value;
      if (!dims_of(value)) continue;
      const auto& users = uses_.users(value);
      if (uses_.is_graph_output(value) || users.empty()) continue;
      std::optional<ir::ValueId> common;
      bool one = true;
      for (const ir::NodeId id : users) {
        const ir::Node& user = graph_.node(id);
        const ir::ValueId out = user.outputs[0];
        if (!dims_of(out)) {
          one = false;
          break;
        }
        const bool moves = is_injective_view(user.op) && user.inputs[0] == value;
        // A value that is read for several elements of the result (broadcast) is computed once and
        // stored.
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

const ExpressionPtr& NestLowerer::expression(ir::ValueId value) {
  Lowered& lowered = values_.at(value);
  if (!lowered.expression) {
    const ir::ConstantPtr data = constant(value);
    if (!data) return lowered.expression = host_.outside(value, *lowered.dims);
    const std::vector<std::byte> bytes =
        data->byte_count() <= 64 ? data->bytes() : std::vector<std::byte>{};
    const std::size_t size = ir::element_bytes(data->element());
    bool splat = !bytes.empty();
    for (std::size_t i = size; i < bytes.size() && splat; ++i) splat = bytes[i] == bytes[i - size];
    if (splat) {
      lowered.expression = literal(ir::make_constant(
          data->element(), {}, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}));
    } else {
      const std::uint32_t buffer = host_.data(data, WeightUse::kData, value);
      lowered.expression = load(data->element(), View::dense(buffer, *lowered.dims));
    }
  }
  return lowered.expression;
}

ExpressionPtr NestLowerer::broadcast_to(const ir::ValueId value, const Sizes& to) {
  const ExpressionPtr& e = expression(value);
  if (dims(value) == to)
    return e;  // unchanged: a subexpression that two operands share stays shared
  return *map_views(e, [&](const View& view) { return broadcast(view, to); });
}

bool NestLowerer::fits_a_loop(const ExpressionPtr& expression) const {
  return nodes_of(expression).size() <= kMaxExpressionNodes;
}

void NestLowerer::set(ir::ValueId value, ExpressionPtr expression) {
  values_.at(value).expression = std::move(expression);
}

void NestLowerer::emit(const ir::Node& node, MapStage stage) {
  if (product(stage.target.dims) == 0) return;
  host_.emit(node, Stage{std::move(stage), node.origin, {}});
}

void NestLowerer::emit(const ir::Node& node, CallStage stage) {
  // The first buffer that a kernel writes is its result. Further written buffers are secondary
  // results or scratch memory; their sizes do not show whether there is work to do.
  const auto result = std::ranges::find(stage.buffers, true, &BufferArgument::written);
  LLMC_CHECK(result != stage.buffers.end());
  if (host_.size(result->buffer) == 0) return;
  host_.emit(node, Stage{std::move(stage), node.origin, {}});
}

View NestLowerer::result(ir::ValueId value) {
  const ir::ElementType type = computed_in(element(value));
  auto buffer = type == element(value) ? host_.output(value) : std::nullopt;
  if (!buffer) {
    const std::string& name = graph_.value(value).name;
    buffer = host_.scratch(
        *current_, type, product(dims(value)), name.empty() ? "value" : name,
        ir::to_string(ir::TensorType{type, graph_.value(value).type.dims}) + "  " + name);
  }
  View view = View::dense(*buffer, dims(value));
  set(value, load(type, view));
  return view;
}

std::uint32_t NestLowerer::scratch(ir::ElementType element, const Size& count,
                                   const std::string& name) {
  return host_.scratch(*current_, element, count, name,
                       fmt::format("{}[{}]  {}", ir::to_string(element), to_string(count), name));
}

View NestLowerer::stored(const ExpressionPtr& expression, const Sizes& dims, ir::ElementType type,
                         const std::string& name) {
  const View target = View::dense(scratch(type, product(dims), name), dims);
  emit(*current_, MapStage{target, expression});
  return target;
}

View NestLowerer::stored(ir::ValueId value, bool dense) {
  const ExpressionPtr e = expression(value);
  const ir::ElementType type = computed_in(element(value));
  if (e->kind == Expression::Kind::kLoad && e->type == type && (!dense || e->view.is_dense()))
    return e->view;
  if (e->kind == Expression::Kind::kLoad) {
    // Creates a copy for readers that need this form; the view stays unchanged for the others.
    return stored(e, dims(value), type, graph_.value(value).name + "_copy");
  }
  const View target = result(value);
  emit(*current_, MapStage{target, e});
  return target;
}

NestLowerer::Stored NestLowerer::stored_unwidened(ir::ValueId value) {
  const ExpressionPtr e = expression(value);
  if (e->kind == Expression::Kind::kLoad && e->view.is_dense()) return {e->view, e->type};
  const View view = stored(value);
  return {view, computed_in(element(value))};
}

Result<std::vector<std::int64_t>> NestLowerer::integers(const ir::Node& node,
                                                        std::size_t operand) const {
  const ir::ConstantPtr data = constant(node.inputs[operand]);
  if (!data)
    return unsupported(node, fmt::format("operand {} decides the shape or order of the result and "
                                         "is not known when compiling",
                                         operand));
  return ir::to_integers(*data);
}

CallStage NestLowerer::by_rows(CallStage call, const Sizes& steps) {
  LLMC_CHECK(steps.size() == call.buffers.size());
  call.split = CallStage::Split::kRows;
  for (std::size_t i = 0; i < steps.size(); ++i) call.buffers[i].row_step = steps[i];
  return call;
}

BufferArgument NestLowerer::scratch_of_workers(const Size& elements, const std::string& name) {
  constexpr std::int64_t kLine = 16;
  const std::int64_t step = (elements.bound() + kLine - 1) / kLine * kLine;
  const std::uint32_t buffer =
      scratch(ir::ElementType::kF32, step * std::max<std::int64_t>(host_.workers(), 1), name);
  return {.buffer = buffer, .written = true, .slot_step = step};
}

NestLowerer::AxisSplit NestLowerer::around(const Sizes& dims, std::size_t axis) {
  AxisSplit split;
  for (std::size_t i = 0; i < axis; ++i) split.outer *= dims[i];
  split.size = dims[axis];
  for (std::size_t i = axis + 1; i < dims.size(); ++i) split.inner *= dims[i];
  return split;
}

std::uint32_t NestLowerer::store_whole(ir::ValueId value) {
  current_ = uses_.producer(value);
  LLMC_CHECK(current_ != nullptr);
  const View view = stored(value);
  if (view.offset == 0 && host_.size(view.buffer) == product(view.dims)) return view.buffer;
  const ir::ElementType type = computed_in(element(value));
  return stored(load(type, view), view.dims, type, graph_.value(value).name + "_copy").buffer;
}

void NestLowerer::finish_output(ir::ValueId value, std::uint32_t buffer) {
  const ExpressionPtr e = expression(value);
  if (e->kind == Expression::Kind::kLoad && e->view.buffer == buffer) {
    LLMC_CHECK(e->view.is_dense() && e->view.offset == 0);
    return;
  }
  const ir::Node* producer = uses_.producer(value);
  const ir::Node copy{ir::Unary{}, {value}, {value}, producer ? producer->origin : ir::Origin{}};
  emit(copy, MapStage{View::dense(buffer, dims(value)), broadcast_to(value, dims(value))});
}

// Kernels of decoders compute these, or nothing does.
#define LLMC_NO_NEST(T)                                              \
  Status NestLowerer::lower(const ir::Node& node, const ir::T&) {    \
    return unsupported(node, "no loop nest computes this operator"); \
  }
LLMC_NO_NEST(NonZero)
LLMC_NO_NEST(Rope)
LLMC_NO_NEST(Attention)
LLMC_NO_NEST(CrossAttention)
LLMC_NO_NEST(Embedding)
LLMC_NO_NEST(Linear)
LLMC_NO_NEST(ExpertLinear)
LLMC_NO_NEST(QkvProjection)
LLMC_NO_NEST(Loop)
LLMC_NO_NEST(Parameter)
#undef LLMC_NO_NEST

Status NestLowerer::lower(const ir::Node& node) {
  current_ = &node;
  Status status = host_.by_token() ? check_rows(node) : check_sizes(node);
  if (status.ok() && !lower_open_sizes(node))
    status = std::visit([&](const auto& op) { return lower(node, op); }, node.op);
  if (!status.ok()) {
    for (const ir::ValueId output : node.outputs)
      if (output.exists() && !has(output) && dims_of(output)) result(output);
    return status;
  }
  if (std::holds_alternative<ir::ConstantOp>(node.op)) return ok_status();
  for (const ir::ValueId output : node.outputs) {
    if (!output.exists()) continue;
    const ExpressionPtr& e = values_.at(output).expression;
    const bool view = e->operands.empty();
    // A 16-bit float that only the caller reads is rounded where it is computed.
    const bool only_output = computed_in(element(output)) != element(output) &&
                             uses_.users(output).empty() && fits_a_loop(e);
    if (!view && !only_output && (sinks_.at(output) == output || !fits_a_loop(e))) stored(output);
  }
  return ok_status();
}

}  // namespace llmc::plan

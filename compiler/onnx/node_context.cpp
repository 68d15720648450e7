#include "compiler/onnx/node_context.h"

#include <algorithm>

#include "compiler/ir/op_info.h"
#include "compiler/onnx/computed_values.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/tensor.h"
#include "compiler/support/checked_math.h"

namespace llmc::importer {

using ir::ElementType;
using ir::ValueId;
using onnx::AttributeProto;

namespace {

/// Maximum number of constant indices that are checked here; others are checked at run time.
constexpr std::int64_t kMaxCheckedIndices = 1 << 22;

}  // namespace

std::string Scope::full_name(const std::string& name) const {
  if (name.empty()) return {};
  const bool two_slashes = prefix.ends_with('/') && name.starts_with('/');
  return prefix + (two_slashes ? name.substr(1) : name);
}

Result<ValueId> append_constant(ir::Builder& builder, Scope& scope, ir::ConstantPtr data,
                                const std::string& name, const ir::Origin& origin) {
  const ElementType element = data->element();
  const std::string full = scope.full_name(name);
  const ValueId constant = builder.constant(data, full, origin);
  scope.constants[constant] = data;
  if (element != ElementType::kF16 && element != ElementType::kBF16) return constant;
  LLMC_TRY(const ValueId wide, builder.add_one(ir::Cast{ElementType::kF32}, {constant}, origin,
                                               full.empty() ? full : full + ".f32"));
  scope.narrow[wide] = constant;
  scope.constants[wide] = std::move(data);
  return wide;
}

NodeContext::NodeContext(ir::Builder& builder, FileSet& files, const OnnxFile& file,
                         const onnx::NodeProto& node, std::int64_t opset, Scope& scope)
    : builder_(builder), files_(files), file_(file), node_(node), opset_(opset), scope_(scope) {
  origin_ = {file.name, node.name()};
  if (origin_.node.empty() && node.output_size() > 0) origin_.node = node.output(0);
  for (const auto& name : node.input()) {
    const auto found = scope.values.find(name);
    LLMC_CHECK(name.empty() || found != scope.values.end());
    inputs_.push_back(name.empty() ? ir::kNoValue : found->second);
  }
  inputs_read_.resize(inputs_.size());
}

// ---- operands

bool NodeContext::has(std::size_t i) const {
  if (i >= inputs_.size()) return false;
  inputs_read_[i] = true;
  return inputs_[i].exists();
}

ValueId NodeContext::in(std::size_t i) {
  if (has(i)) return inputs_[i];
  bad("operand " + std::to_string(i) + " is missing");
  return ir::kNoValue;
}

std::vector<ValueId> NodeContext::all_inputs() {
  for (std::size_t i = 0; i < inputs_.size(); ++i) in(i);
  return inputs_;
}

std::int64_t NodeContext::rank(ValueId value) const {
  return value.exists() ? static_cast<std::int64_t>(type(value).rank()) : 0;
}

std::optional<std::vector<std::int64_t>> NodeContext::known_integers(std::size_t i) const {
  const auto* dims = known_dims(i);
  if (!dims) return std::nullopt;
  std::vector<std::int64_t> values;
  for (const auto& dim : *dims) {
    if (!dim.is_constant()) return std::nullopt;
    values.push_back(*dim.constant());
  }
  return values;
}

std::optional<ValueId> NodeContext::narrow(ValueId value) const {
  const auto found = scope_.narrow.find(value);
  return found == scope_.narrow.end() ? std::nullopt : std::optional(found->second);
}

ir::ConstantPtr NodeContext::constant(std::size_t i) const {
  if (!has(i)) return nullptr;
  const auto found = scope_.constants.find(inputs_[i]);
  return found == scope_.constants.end() ? nullptr : found->second;
}

std::optional<double> NodeContext::known_number(std::size_t i) const {
  if (const auto data = constant(i); data && data->element_count() == 1)
    return ir::to_doubles(*data)[0];
  const auto integers = known_integers(i);
  if (!integers || integers->size() != 1) return std::nullopt;
  return static_cast<double>(integers->front());
}

void NodeContext::check_indices(std::size_t i, const std::vector<ir::Dim>& sizes) {
  if (failed() || sizes.empty()) return;
  auto indices = known_integers(i);
  const auto data = constant(i);
  if (!indices && data && data->element_count() <= kMaxCheckedIndices) {
    if (auto integers = ir::to_integers(*data); integers.ok()) indices = *std::move(integers);
  }
  if (!indices) return;
  for (std::size_t at = 0; at < indices->size(); ++at) {
    const auto size = sizes[at % sizes.size()].constant();
    const std::int64_t index = (*indices)[at];
    if (!size || (index >= -*size && index < *size)) continue;
    return bad("index " + std::to_string(index) + " is outside a dim of " + std::to_string(*size) +
                   " elements",
               *size > 0 ? "indices run from " + std::to_string(-*size) + " to " +
                               std::to_string(*size - 1)
                         : "the dim is empty");
  }
}

const std::pair<ir::ConstantPtr, ValueId>* NodeContext::gathered(std::size_t i) const {
  if (!has(i)) return nullptr;
  const auto found = scope_.gathered.find(inputs_[i]);
  return found == scope_.gathered.end() ? nullptr : &found->second;
}

void NodeContext::note_gathered(std::size_t slot, ir::ConstantPtr table, ValueId indices) {
  if (failed() || !wants(slot)) return;
  const auto made = scope_.values.find(node_.output(static_cast<int>(slot)));
  if (made != scope_.values.end()) scope_.gathered[made->second] = {std::move(table), indices};
}

bool NodeContext::bypasses_quantization() const {
  return node_.output_size() > 0 && scope_.float_products.contains(node_.output(0));
}

std::string NodeContext::input_name(std::size_t i) const {
  return std::cmp_less(i, node_.input_size()) ? node_.input(static_cast<int>(i)) : std::string();
}

int NodeContext::declared_type(std::size_t i) const {
  const auto found = scope_.declared_types.find(input_name(i));
  return found == scope_.declared_types.end() ? 0 : found->second;
}

const std::vector<ValueId>* NodeContext::stack(ValueId value) const {
  const auto found = scope_.stacks.find(value);
  return found == scope_.stacks.end() ? nullptr : &found->second;
}

// ---- attributes

const AttributeProto* NodeContext::find(std::string_view name) const {
  attributes_read_.emplace(name);
  return find_attribute(node_, name);
}

const AttributeProto* NodeContext::find(std::string_view name, AttributeProto::AttributeType type) {
  const AttributeProto* attribute = find(name);
  if (!attribute) return nullptr;
  if (!attribute->ref_attr_name().empty()) {
    bad("attribute '" + std::string(name) +
        "' refers to a function's attribute outside a function");
    return nullptr;
  }
  if (attribute->type() == type) return attribute;
  bad("attribute '" + std::string(name) + "' has the wrong type");
  return nullptr;
}

std::int64_t NodeContext::integer(std::string_view name, std::int64_t fallback) {
  const auto* attribute = find(name, AttributeProto::INT);
  return attribute ? attribute->i() : fallback;
}

float NodeContext::number(std::string_view name, float fallback) {
  const auto* attribute = find(name, AttributeProto::FLOAT);
  return attribute ? attribute->f() : fallback;
}

std::string NodeContext::text(std::string_view name, std::string fallback) {
  const auto* attribute = find(name, AttributeProto::STRING);
  return attribute ? attribute->s() : fallback;
}

std::optional<std::vector<std::int64_t>> NodeContext::integers(std::string_view name) {
  const auto* attribute = find(name, AttributeProto::INTS);
  if (!attribute) return std::nullopt;
  return std::vector<std::int64_t>(attribute->ints().begin(), attribute->ints().end());
}

std::optional<std::vector<float>> NodeContext::numbers(std::string_view name) {
  const auto* attribute = find(name, AttributeProto::FLOATS);
  if (!attribute) return std::nullopt;
  return std::vector<float>(attribute->floats().begin(), attribute->floats().end());
}

ir::ConstantPtr NodeContext::tensor(std::string_view name) {
  const auto* attribute = find(name, AttributeProto::TENSOR);
  if (!attribute) return nullptr;
  auto data = read_tensor(files_, file_, attribute->t(), file_.name + ":" + origin_.node);
  if (data.ok()) return *data;
  Diagnostic d = data.error().first();
  d.node = origin_.node;
  d.op = node_.op_type();
  fail(std::move(d));
  return nullptr;
}

bool NodeContext::normalize_axis(std::int64_t& axis, std::int64_t rank) {
  if (axis < -rank || axis >= rank) {
    bad("axis " + std::to_string(axis) + " does not fit a tensor of rank " + std::to_string(rank));
    return false;
  }
  if (axis < 0) axis += rank;
  return true;
}

std::int64_t NodeContext::axis(std::string_view name, std::int64_t fallback, std::int64_t rank) {
  std::int64_t value = integer(name, fallback);
  if (failed() || !normalize_axis(value, rank)) return 0;
  return value;
}

std::optional<std::vector<std::int64_t>> NodeContext::axes(std::string_view name,
                                                           std::int64_t input_since, std::size_t i,
                                                           std::int64_t rank) {
  std::optional<std::vector<std::int64_t>> values;
  if (opset_ < input_since) {
    values = integers(name);
  } else if (has(i)) {
    values = known_integers(i);
    if (!values) unsupported("axes that are not constant are not supported");
  }
  if (!values || failed()) return std::nullopt;
  for (auto& value : *values)
    if (!normalize_axis(value, rank)) return std::nullopt;
  std::sort(values->begin(), values->end());
  if (std::adjacent_find(values->begin(), values->end()) != values->end()) {
    bad("duplicate axis");
    return std::nullopt;
  }
  return values;
}

// ---- results

bool NodeContext::wants(std::size_t slot) const {
  return slot < output_count() && !node_.output(static_cast<int>(slot)).empty();
}

std::string NodeContext::value_name(std::size_t slot) const {
  return wants(slot) ? scope_.full_name(node_.output(static_cast<int>(slot))) : std::string();
}

void NodeContext::emit(ir::Op op, std::vector<ValueId> inputs) {
  if (failed()) return;
  while (!inputs.empty() && !inputs.back().exists()) inputs.pop_back();
  const std::size_t results = ir::output_count(op);
  for (std::size_t slot = results; slot < output_count(); ++slot)
    if (wants(slot)) return unsupported("output " + std::to_string(slot) + " is not supported");
  std::vector<std::string> names;
  for (std::size_t slot = 0; slot < results; ++slot) names.push_back(value_name(slot));
  auto made = builder_.add(std::move(op), std::move(inputs), origin_, std::move(names));
  if (!made.ok()) return fail(made.error().first());
  for (std::size_t slot = 0; slot < made->size(); ++slot) {
    check_size((*made)[slot]);
    bind(slot, (*made)[slot]);
  }
}

ValueId NodeContext::make(ir::Op op, std::vector<ValueId> inputs) {
  const auto made = make_all(std::move(op), std::move(inputs));
  LLMC_CHECK(made.size() <= 1);
  return made.empty() ? ir::kNoValue : made.front();
}

std::vector<ValueId> NodeContext::make_all(ir::Op op, std::vector<ValueId> inputs) {
  if (failed()) return {};
  while (!inputs.empty() && !inputs.back().exists()) inputs.pop_back();
  auto made = builder_.add(std::move(op), std::move(inputs), origin_);
  if (!made.ok()) return fail(made.error().first()), std::vector<ValueId>();
  for (const ValueId value : *made) check_size(value);
  return failed() ? std::vector<ValueId>() : *std::move(made);
}

void NodeContext::check_size(ValueId value) {
  std::vector<std::int64_t> sizes;
  for (const auto& dim : type(value).dims)
    if (const auto size = dim.constant()) sizes.push_back(*size);
  if (!checked_product(sizes))
    bad("the result " + ir::to_string(type(value)) + " has more elements than can be addressed");
}

ValueId NodeContext::computed(ValueId value) {
  if (failed() || !value.exists() || scope_.constants.contains(value)) return value;
  const ir::ConstantPtr data = computed_constant(builder_, value);
  return data ? make_constant(data) : value;
}

ValueId NodeContext::make_constant(ir::ConstantPtr data, const std::string& name) {
  if (failed()) return ir::kNoValue;
  auto made = append_constant(builder_, scope_, std::move(data), name, origin_);
  if (made.ok()) return *made;
  fail(made.error().first());
  return ir::kNoValue;
}

ValueId NodeContext::make_integers(std::vector<std::int64_t> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return make_constant(ir::make_i64({count}, std::move(values)));
}

ValueId NodeContext::make_scalar(double value, ValueId like) {
  if (failed() || !like.exists()) return ir::kNoValue;
  return make_constant(ir::make_splat(type(like).element, {}, value));
}

void NodeContext::bind(std::size_t slot, ValueId value) {
  if (failed() || !wants(slot)) return;
  scope_.values[node_.output(static_cast<int>(slot))] = value;
  auto& name = builder_.mutable_graph().value(value).name;
  if (name.empty()) name = builder_.unique_name(value_name(slot));
}

ValueId NodeContext::cast(ValueId value, ElementType to) {
  if (failed() || type(value).element == to) return value;
  return make(ir::Cast{to}, {value});
}

// ---- errors

void NodeContext::refuse_unread() {
  if (failed()) return;
  const std::string elsewhere = ", which does not belong to " + node_.op_type() +
                                " of operator set " + std::to_string(opset_);
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (!inputs_read_[i] && inputs_[i].exists())
      return unsupported("has an operand " + std::to_string(i) + elsewhere);
  for (const auto& attribute : node_.attribute())
    if (!attributes_read_.contains(attribute.name()) && !is_annotation(attribute.name(), opset_))
      return unsupported("has the attribute '" + printable(attribute.name(), 60) + "'" + elsewhere);
}

bool NodeContext::is_empty(ValueId value) const {
  return value.exists() && !scope_.constants.contains(value) &&
         std::ranges::any_of(type(value).dims,
                             [](const ir::Dim& dim) { return dim.constant() == 0; });
}

void NodeContext::fail(Diagnostic diagnostic) {
  if (error_) return;
  diagnostic.file = file_.name;
  diagnostic.node = origin_.node;
  diagnostic.op = node_.op_type();
  if (diagnostic.hint.empty() && diagnostic.kind == ErrorKind::kBadInput &&
      std::ranges::any_of(inputs_, [&](ValueId v) { return is_empty(v); }))
    diagnostic.hint = "an operand has no elements: export the model with sizes of at least 1";
  error_ = std::move(diagnostic);
}

void NodeContext::bad(std::string message, std::string hint) {
  fail(failure(ErrorKind::kBadInput, std::move(message), std::move(hint)));
}

void NodeContext::unsupported(std::string message, std::string hint) {
  fail(failure(ErrorKind::kUnsupported, std::move(message), std::move(hint)));
}

}  // namespace llmc::importer

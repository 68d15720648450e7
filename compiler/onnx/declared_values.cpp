#include "compiler/onnx/declared_values.h"

#include <algorithm>

#include "compiler/onnx/graph_order.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/tensor.h"

namespace llmc::importer {
namespace {

using onnx::NodeProto;
using onnx::TensorProto;
using onnx::ValueInfoProto;

/// Maximum number of recorded contradictions; further ones are ignored.
constexpr std::size_t kMaxNoted = 1000;

// The lists are sorted for binary search.
/// Operators whose float operands and float outputs all have the same type.
constexpr std::string_view kOneFloatType[] = {"Abs",
                                              "Add",
                                              "And",
                                              "Ceil",
                                              "Clip",
                                              "Concat",
                                              "Cos",
                                              "Cosh",
                                              "CumSum",
                                              "Div",
                                              "Einsum",
                                              "Elu",
                                              "Equal",
                                              "Erf",
                                              "Exp",
                                              "Expand",
                                              "Flatten",
                                              "Floor",
                                              "Gather",
                                              "GatherElements",
                                              "GatherND",
                                              "Gelu",
                                              "Gemm",
                                              "Greater",
                                              "GreaterOrEqual",
                                              "HardSwish",
                                              "Hardmax",
                                              "Identity",
                                              "LeakyRelu",
                                              "Less",
                                              "LessOrEqual",
                                              "Log",
                                              "LogSoftmax",
                                              "MatMul",
                                              "Max",
                                              "Mean",
                                              "Min",
                                              "Mish",
                                              "Mod",
                                              "Mul",
                                              "Neg",
                                              "Or",
                                              "PRelu",
                                              "Pad",
                                              "Range",
                                              "Reciprocal",
                                              "ReduceL1",
                                              "ReduceL2",
                                              "ReduceLogSum",
                                              "ReduceLogSumExp",
                                              "ReduceMax",
                                              "ReduceMean",
                                              "ReduceMin",
                                              "ReduceProd",
                                              "ReduceSum",
                                              "ReduceSumSquare",
                                              "Relu",
                                              "Reshape",
                                              "Round",
                                              "ScatterElements",
                                              "ScatterND",
                                              "Selu",
                                              "Sigmoid",
                                              "Sign",
                                              "Sin",
                                              "Sinh",
                                              "Slice",
                                              "Softmax",
                                              "Softplus",
                                              "Softsign",
                                              "Split",
                                              "Sqrt",
                                              "Squeeze",
                                              "Sub",
                                              "Sum",
                                              "Swish",
                                              "Tan",
                                              "Tanh",
                                              "Tile",
                                              "TopK",
                                              "Transpose",
                                              "Trilu",
                                              "Unsqueeze",
                                              "Where"};
/// Operators whose output 0 has the type of operand 0, whatever the types of other operands.
constexpr std::string_view kTypeOfFirst[] = {"Dropout", "Pow"};
/// Operators of kOneFloatType whose result is a bool.
constexpr std::string_view kGivesBool[] = {"Equal", "Greater", "GreaterOrEqual", "Less",
                                           "LessOrEqual"};

bool is_standard(const NodeProto& node) {
  return plain_domain(node.domain()).empty();
}

/// Returns whether the IR's type `computed` can represent the file's type `declared`: the IR uses
/// f32 for 16-bit floats and 8-bit integers for 4-bit ones.
bool can_be(int declared, ir::ElementType computed) {
  using ir::ElementType;
  if (declared == kUint4) return computed == ElementType::kU8;
  if (declared == kInt4) return computed == ElementType::kI8;
  const auto plain = [](ElementType element) {
    const bool narrow = element == ElementType::kF16 || element == ElementType::kBF16;
    return narrow ? ElementType::kF32 : element;
  };
  const auto element = element_type(declared);
  return element && plain(*element) == plain(computed);
}

std::string element_name(int data_type) {
  const auto element = element_type(data_type);
  return element ? std::string(ir::to_string(*element)) : data_type_name(data_type);
}

std::string declared_text(const ValueInfoProto& value) {
  const auto& type = value.type().tensor_type();
  std::string text = type.elem_type() ? element_name(type.elem_type()) : "?";
  if (!type.has_shape()) return text;
  const auto& dims = type.shape().dim();
  text += "[";
  for (int i = 0; i < dims.size() && i <= kMaxRank; ++i) {
    if (i > 0) text += ", ";
    text += dims[i].has_dim_value()       ? std::to_string(dims[i].dim_value())
            : dims[i].dim_param().empty() ? "?"
                                          : printable(dims[i].dim_param(), 40);
  }
  return text + (dims.size() > kMaxRank + 1 ? ", …]" : "]");
}

/// Returns whether the shapes have the same sizes after dims of 1 are removed. Blocks of split
/// models declare dims of 1 at different positions.
bool equal_without_ones(
    const google::protobuf::RepeatedPtrField<onnx::TensorShapeProto_Dimension>& a,
    const ir::TensorType& b) {
  std::vector<std::optional<std::int64_t>> declared, computed;
  for (const auto& dim : a)
    if (!dim.has_dim_value())
      declared.emplace_back();
    else if (dim.dim_value() != 1)
      declared.emplace_back(dim.dim_value());
  for (const ir::Dim& dim : b.dims)
    if (dim != ir::Dim(1)) computed.push_back(dim.constant());
  return std::ranges::equal(declared, computed,
                            [](const auto& x, const auto& y) { return !x || x == y; });
}

}  // namespace

// ---- FloatTypes

void FloatTypes::set(const std::string& name, int data_type) {
  if (data_type == TensorProto::FLOAT || data_type == TensorProto::FLOAT16 ||
      data_type == TensorProto::BFLOAT16)
    types_[name] = data_type;
}

std::optional<int> FloatTypes::find(const std::string& name) const {
  const auto found = types_.find(name);
  return found == types_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> FloatTypes::infer(const NodeProto& node) {
  if (!is_standard(node)) return std::nullopt;
  const std::string& op = node.op_type();
  std::optional<int> type;
  if (op == "Cast") {
    const auto* to = find_attribute(node, "to");
    if (to && to->i() > 0 && to->i() < INT32_MAX) type = static_cast<int>(to->i());
  } else if (op == "CastLike") {
    if (node.input_size() == 2) type = find(node.input(1));
  } else if (op == "Constant" || op == "ConstantOfShape") {
    const auto* value = find_attribute(node, "value");
    const bool is_float = op == "ConstantOfShape" || find_attribute(node, "value_float") ||
                          find_attribute(node, "value_floats");
    if (value && value->has_t())
      type = value->t().data_type();
    else if (!value && is_float)
      type = TensorProto::FLOAT;
  } else if (std::ranges::binary_search(kTypeOfFirst, op)) {
    if (node.input_size() > 0) type = find(node.input(0));
  } else if (std::ranges::binary_search(kOneFloatType, op)) {
    int first = 0;
    for (int i = 0; i < node.input_size(); ++i) {
      const auto operand = find(node.input(i));
      if (!operand) continue;
      if (type && *type != *operand)
        return "operands " + std::to_string(first) + " and " + std::to_string(i) +
               " differ in element type: " + data_type_name(*type) + " against " +
               data_type_name(*operand);
      if (!type) first = i;
      type = operand;
    }
  }
  if (!type || std::ranges::binary_search(kGivesBool, op)) return std::nullopt;
  const int outputs = std::ranges::binary_search(kTypeOfFirst, op) || op == "TopK"
                          ? std::min(node.output_size(), 1)
                          : node.output_size();
  for (int i = 0; i < outputs; ++i) set(node.output(i), *type);
  return std::nullopt;
}

// ---- DeclaredValues

DeclaredValues::DeclaredValues(const OnnxFile& file) : file_(file) {
  enter(file.model.graph());
}

void DeclaredValues::enter(const onnx::GraphProto& branch) {
  for (const auto* values : {&branch.value_info(), &branch.output()})
    for (const ValueInfoProto& value : *values)
      if (value.has_type()) declared_.emplace(value.name(), &value);
}

void DeclaredValues::leave(const onnx::GraphProto& branch) {
  for (const auto* values : {&branch.value_info(), &branch.output()})
    for (const ValueInfoProto& value : *values) {
      const auto [begin, end] = declared_.equal_range(value.name());
      const auto found =
          std::find_if(begin, end, [&](const auto& entry) { return entry.second == &value; });
      if (found != end) declared_.erase(found);
    }
}

void DeclaredValues::note_input(const ValueInfoProto& value, const ir::TensorType& bound) {
  const auto& type = value.type().tensor_type();
  const bool same_element = type.elem_type() == 0 || can_be(type.elem_type(), bound.element);
  const bool same_rank =
      !type.has_shape() || static_cast<std::size_t>(type.shape().dim_size()) == bound.rank();
  if (!same_element || !same_rank) {
    inputs_as_declared_ = false;
  } else {
    warn_of_size(value, bound, true);
  }
}

void DeclaredValues::warn_of_size(const ValueInfoProto& declared, const ir::TensorType& computed,
                                  bool is_input) {
  const auto& type = declared.type().tensor_type();
  if (!type.has_shape() || warnings_.size() >= kMaxNoted) return;
  const auto& dims = type.shape().dim();
  if (static_cast<std::size_t>(dims.size()) != computed.rank()) return;
  if (is_input && equal_without_ones(dims, computed)) return;
  for (int i = 0; i < dims.size(); ++i) {
    // Some exporters write -1 for a symbolic size.
    const auto size = computed.dims[static_cast<std::size_t>(i)].constant();
    const bool differs = size ? *size != dims[i].dim_value() : is_input;
    if (!dims[i].has_dim_value() || dims[i].dim_value() < 0 || !differs) continue;
    warnings_.push_back(
        bad_node(file_, declared.name(),
                 std::string(is_input ? "the input " : "") + "is declared as " +
                     declared_text(declared) + ", but it is " + ir::to_string(computed),
                 "the declared size is wrong and is ignored; export again with shape "
                 "inference to correct it"));
    return;
  }
}

Status DeclaredValues::check(const std::string& name, const ir::TensorType& computed,
                             const NodeProto* node, std::optional<int> float_type,
                             bool compare_elements) {
  const auto [begin, end] = declared_.equal_range(name);
  for (auto at = begin; at != end; ++at) {
    const ValueInfoProto& declared = *at->second;
    const auto& type = declared.type().tensor_type();
    const int element = type.elem_type();
    std::string computed_text = ir::to_string(computed);
    bool fits = declared.type().has_tensor_type();
    if (fits && compare_elements && element != 0) {
      fits = can_be(element, computed.element);
      const bool is_float = element_type(element) && ir::is_float(*element_type(element));
      if (fits && is_float && float_type && *float_type != element) {
        fits = false;
        computed_text = ir::to_string(ir::TensorType{*element_type(*float_type), computed.dims});
      }
    }
    // onnxruntime-genai declares constants of any shape as scalars.
    const bool any_shape = node && node->op_type() == "Constant" && type.shape().dim_size() == 0;
    if (fits && type.has_shape() && !any_shape)
      fits = static_cast<std::size_t>(type.shape().dim_size()) == computed.rank();
    if (!fits && inputs_as_declared_) {
      Diagnostic d =
          bad_node(file_, node ? node_name(*node) : name,
                   "the value '" + printable(name, 80) + "' is declared as " +
                       (declared.type().has_tensor_type() ? declared_text(declared) : "no tensor") +
                       ", but it is " + computed_text,
                   "correct its type among the graph's outputs and value_info, or export it again");
      if (node) d.op = node->op_type();
      return d;
    }
    if (fits) warn_of_size(declared, computed, false);
  }
  return ok_status();
}

}  // namespace llmc::importer

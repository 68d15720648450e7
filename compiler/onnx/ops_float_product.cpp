// Converts products of activations that the graph quantizes dynamically to float products.

#include <algorithm>

#include "compiler/onnx/codes.h"
#include "compiler/onnx/lowering.h"

namespace llmc::importer {
namespace {

/// Products that multiply by the scales themselves, with the numbers of their operands that hold
/// the scale and zero point of the codes, and the zero point of the weight.
struct ScaledProduct {
  std::string_view op;
  int scale = 0, zero = 0, weight_zero = 0;
};
constexpr ScaledProduct kScaledProducts[] = {{"QAttention", 3, 6, 7},
                                             {"MatMulIntegerToFloat", 2, 4, 5}};

const ScaledProduct* scaled_product_of(const onnx::NodeProto& node) {
  const auto* found = std::ranges::find(kScaledProducts, node.op_type(), &ScaledProduct::op);
  return found == std::end(kScaledProducts) ? nullptr : found;
}

std::string operand(const onnx::NodeProto& node, int i) {
  return i < node.input_size() ? node.input(i) : std::string();
}

/// Returns whether `tensor` has 8-bit integers and is the matrix by which `node` multiplies, or the
/// weight of its convolution.
bool is_weight_of(const onnx::NodeProto& node, const onnx::TensorProto& tensor) {
  const std::string& op = node.op_type();
  const bool matrix =
      (op == "MatMulInteger" || op == "DynamicQuantizeMatMul" || scaled_product_of(node)) &&
      tensor.dims_size() == 2;
  const bool window = node.op_type() == "ConvInteger" && tensor.dims_size() > 2;
  return (matrix || window) && (tensor.data_type() == onnx::TensorProto::INT8 ||
                                tensor.data_type() == onnx::TensorProto::UINT8);
}

/// The nodes that read each value of a graph.
class Readers {
 public:
  explicit Readers(const onnx::GraphProto& graph) {
    for (const auto& tensor : graph.initializer()) tensors_[tensor.name()] = &tensor;
    for (const auto& output : graph.output()) kept_.insert(output.name());
    for (const auto& node : graph.node()) {
      for (const auto& name : node.output())
        if (!name.empty()) makers_[name] = &node;
      for (const auto& name : node.input())
        if (!name.empty()) readers_[name].push_back(&node);
    }
  }

  const onnx::TensorProto* tensor(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : found->second;
  }
  const onnx::NodeProto* maker(const std::string& name) const {
    const auto found = makers_.find(name);
    return found == makers_.end() ? nullptr : found->second;
  }
  /// Returns one entry for each operand that reads the value, and a nullptr if it is a graph
  /// output.
  std::vector<const onnx::NodeProto*> of(const std::string& name) const {
    const auto found = readers_.find(name);
    auto all = found == readers_.end() ? std::vector<const onnx::NodeProto*>() : found->second;
    if (kept_.contains(name)) all.push_back(nullptr);
    return all;
  }
  /// Returns the only reader of a value if its operator is `op`, otherwise nullptr.
  const onnx::NodeProto* only(const std::string& name, std::string_view op) const {
    const auto all = of(name);
    return all.size() == 1 && all[0] && all[0]->op_type() == op ? all[0] : nullptr;
  }

 private:
  std::map<std::string, const onnx::TensorProto*> tensors_;
  std::map<std::string, const onnx::NodeProto*> makers_;
  std::map<std::string, std::vector<const onnx::NodeProto*>> readers_;
  std::set<std::string> kept_;
};

/// Returns the factor other than `value` if `node` is a product of two different values, otherwise
/// an empty string.
std::string other_factor(const onnx::NodeProto& node, const std::string& value) {
  if (node.op_type() != "Mul" || node.input_size() != 2 || node.input(0) == node.input(1))
    return {};
  return node.input(0) == value ? node.input(1) : node.input(0);
}

/// Returns whether `node` casts to f32, or to the 16-bit type of the graph's floats.
bool is_cast_to_float(const onnx::NodeProto& node) {
  if (node.attribute_size() != 1 || node.attribute(0).name() != "to") return false;
  const std::int64_t to = node.attribute(0).i();
  return to == onnx::TensorProto::FLOAT || to == onnx::TensorProto::FLOAT16 ||
         to == onnx::TensorProto::BFLOAT16;
}

/// Returns whether floats can replace the codes of `quantize`: only products with constant
/// matrices, or convolutions with constant weights, read codes and zero point, and each product is
/// multiplied once by the scale, or by the scale times a constant. For any other use, floats would
/// give a different result.
bool feeds_only_products(const onnx::NodeProto& quantize, const Readers& readers) {
  if (quantize.output_size() != 3) return false;
  const std::string &codes = quantize.output(0), &scale = quantize.output(1),
                    &zero = quantize.output(2);
  if (codes.empty() || scale.empty() || zero.empty()) return false;
  std::set<const onnx::NodeProto*> products, scalings, scales;
  for (const onnx::NodeProto* node : readers.of(codes)) {
    if (!node || node->input_size() < 3) return false;
    const onnx::TensorProto* weight = readers.tensor(node->input(1));
    if (!weight || !is_weight_of(*node, *weight)) return false;
    const ScaledProduct* scaled = scaled_product_of(*node);
    const int zero_at = scaled ? scaled->zero : 2,
              weight_zero_at = scaled ? scaled->weight_zero : 3;
    if (node->input(0) != codes || operand(*node, zero_at) != zero) return false;
    const std::string weight_zero = operand(*node, weight_zero_at);
    if (!weight_zero.empty() && !readers.tensor(weight_zero)) return false;
    if (scaled) {
      if (operand(*node, scaled->scale) != scale) return false;
      for (const std::string& name : {codes, scale, zero})
        if (std::ranges::count(node->input(), name) != 1) return false;
      products.insert(node);
      scalings.insert(node);
      continue;
    }
    const auto* cast = readers.only(node->output(0), "Cast");
    if (!cast || !is_cast_to_float(*cast)) return false;
    const auto* scaling = readers.only(cast->output(0), "Mul");
    if (!scaling) return false;
    const std::string factor = other_factor(*scaling, cast->output(0));
    if (factor != scale) {
      const auto* combined = readers.maker(factor);
      if (!combined || !readers.tensor(other_factor(*combined, scale))) return false;
      if (combined->input(0) != scale && combined->input(1) != scale) return false;
      scales.insert(combined);
    }
    products.insert(node);
    scalings.insert(scaling);
  }
  const auto all_in = [&](const std::string& name, const auto&... sets) {
    const auto all = readers.of(name);
    return std::all_of(all.begin(), all.end(),
                       [&](const auto* node) { return (sets.contains(node) || ...); });
  };
  return !products.empty() && all_in(zero, products) && all_in(scale, scalings, scales) &&
         std::all_of(scales.begin(), scales.end(),
                     [&](const auto* node) { return all_in(node->output(0), scalings); });
}

/// Returns whether the matrix of a DynamicQuantizeMatMul, which quantizes the other operand itself,
/// is constant.
bool multiplies_constant(const onnx::NodeProto& node, const Readers& readers) {
  const onnx::TensorProto* weight = readers.tensor(operand(node, 1));
  const std::string zero = operand(node, 3);
  return weight && is_weight_of(node, *weight) && (zero.empty() || readers.tensor(zero));
}

}  // namespace

std::set<std::string> float_products(const onnx::GraphProto& graph) {
  for (const auto& node : graph.node())
    for (const auto& attribute : node.attribute())  // a branch may read any value
      if (attribute.has_g()) return {};
  const Readers readers(graph);
  std::set<std::string> good;
  for (const auto& node : graph.node())
    if (node.op_type() == "DynamicQuantizeLinear" && feeds_only_products(node, readers))
      good.insert(node.output(0));
    else if (node.op_type() == "DynamicQuantizeMatMul" && multiplies_constant(node, readers))
      good.insert(node.output(0));
  return good;
}

void bypass_quantize(NodeContext& n) {
  const ir::ValueId x = n.in(0);
  n.bind(0, x);
  n.bind(1, n.make_scalar(1, x));
  n.bind(2, n.make_constant(ir::make_splat(ir::ElementType::kU8, {}, 0)));
}

void convert_float_product(NodeContext& n) {
  n.ignore_operand(2);  // zero point: 0 for floats
  const ir::ConstantPtr matrix = coded_matrix(n, {.codes = 1, .zero = 3});
  if (n.failed()) return;
  if (!matrix) return n.unsupported("a matrix that is not constant is not supported here");
  n.emit(ir::MatMul{}, {n.in(0), n.make_constant(matrix, n.input_name(1))});
}

}  // namespace llmc::importer

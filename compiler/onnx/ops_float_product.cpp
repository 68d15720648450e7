// Products whose activations the graph quantizes on the way, as float products.

#include "compiler/onnx/lowering.h"

namespace llmc::importer {
namespace {

/// Whether the tensor is a constant matrix of bytes.
bool is_code_matrix(const onnx::TensorProto& tensor) {
  return tensor.dims_size() == 2 && (tensor.data_type() == onnx::TensorProto::INT8 ||
                                     tensor.data_type() == onnx::TensorProto::UINT8);
}

}  // namespace

std::set<std::string> float_products(const onnx::GraphProto& graph) {
  std::map<std::string, const onnx::TensorProto*> tensors;
  for (const auto& tensor : graph.initializer()) tensors[tensor.name()] = &tensor;
  std::map<std::string, std::string> owner;  // every output of such a node -> its first one
  std::set<std::string> good;
  for (const auto& node : graph.node()) {
    if (node.op_type() != "DynamicQuantizeLinear" || node.output_size() == 0) continue;
    good.insert(node.output(0));
    for (const auto& output : node.output())
      if (!output.empty()) owner[output] = node.output(0);
  }
  const auto forget = [&](const std::string& name) {
    if (const auto found = owner.find(name); found != owner.end()) good.erase(found->second);
  };
  const auto constant = [&](const onnx::NodeProto& node, int i) {
    return i >= node.input_size() || node.input(i).empty() || tensors.contains(node.input(i));
  };
  for (const auto& node : graph.node()) {
    for (int i = 0; i < node.input_size(); ++i) {
      const auto found = owner.find(node.input(i));
      if (found == owner.end()) continue;
      bool fits = false;
      if (node.op_type() == "MatMulInteger" && node.input_size() >= 2) {
        const auto matrix = tensors.find(node.input(1));
        // Codes and zero point of one quantization, a constant matrix on the other side.
        const bool own_zero = node.input_size() < 3 || node.input(2).empty() ||
                              (owner.contains(node.input(2)) && owner.contains(node.input(0)) &&
                               owner[node.input(2)] == owner[node.input(0)]);
        fits = (i == 0 || i == 2) && own_zero && matrix != tensors.end() &&
               is_code_matrix(*matrix->second) && constant(node, 3);
      } else if (node.op_type() == "Mul") {
        fits = found->first != found->second;  // the scale
      }
      if (!fits) forget(node.input(i));
    }
    for (const auto& attribute : node.attribute())  // a branch may read anything
      if (attribute.has_g()) return {};
  }
  for (const auto& output : graph.output()) forget(output.name());
  return good;
}

void pass_in_floats(NodeContext& n) {
  const ir::ValueId x = n.in(0);
  n.bind(0, x);
  n.bind(1, n.make_scalar(1, x));
  n.bind(2, n.make_constant(ir::make_splat(ir::ElementType::kU8, {}, 0)));
}

void convert_float_product(NodeContext& n) {
  ir::QuantizedParts parts;
  parts.codes = n.constant(1);
  n.ignore_operand(2);  // 0: floats are passed on as they are
  if (n.failed()) return;
  if (!parts.codes || parts.codes->dims().size() != 2)
    return n.unsupported("a matrix that is not constant is not supported here");
  const std::int64_t columns = parts.codes->dims()[1];
  parts.row_block = std::max<std::int64_t>(parts.codes->dims()[0], 1);
  parts.column_block = std::max<std::int64_t>(columns, 1);
  if (n.has(3)) {
    const ir::ConstantPtr zero = n.constant(3);
    const std::int64_t count = zero ? zero->element_count() : 0;
    if (count != 1 && count != columns)
      return n.bad("its zero points are neither one nor one for each column");
    if (count == columns) parts.column_block = 1;
    parts.zero_points = ir::reshaped(zero, {1, count});
  }
  const std::int64_t scales = parts.column_block == 1 ? columns : 1;
  parts.scales = ir::make_splat(ir::ElementType::kF32, {1, scales}, 1);
  if (!ir::is_quantized_matrix(parts)) return n.bad("its matrix and zero points do not fit");
  n.emit(ir::MatMul{},
         {n.in(0), n.make_constant(ir::make_quantized(std::move(parts)), n.input_name(1))});
}

}  // namespace llmc::importer

// Operators on codes: onnxruntime's quantizer writes them for constant scales (QLinear…), its
// optimizer for products of dynamically quantized activations.

#include "compiler/onnx/codes.h"
#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::ElementType;
using ir::ValueId;

/// Returns the scale or zero point of y in operand `slot`, in a shape that is broadcast to y.
/// Reports an error unless it has one element or, with `by_row`, one for each row of y.
ValueId result_parameter(NodeContext& n, ValueId y, std::size_t slot, bool by_row) {
  const ValueId value = n.in(slot);
  if (n.failed() || n.rank(value) != 1) return value;
  const auto count = known_dim(n, value, 0);
  const auto rows = by_row && n.rank(y) > 1 ? known_dim(n, y, n.rank(y) - 2) : 1;
  if (count && count != 1 && rows && count != rows)
    n.bad("the scale or zero point of its result has " + std::to_string(*count) + " elements",
          by_row ? "give one, or one for each of the " + std::to_string(*rows) + " rows"
                 : "give one");
  return code_parameter(n, slot, by_row);
}

/// Binds output 0 to the codes of y, whose scale and zero point are operands. They have the type of
/// the zero point, otherwise of operand `like`.
void bind_codes(NodeContext& n, ValueId y, std::size_t scale, std::size_t zero, std::size_t like,
                bool by_row = false) {
  const ValueId typed = n.has(zero) ? n.in(zero) : n.in(like);
  if (n.failed()) return;
  const auto range = code_range(n.type(typed).element);
  if (!range)
    return n.bad("its codes have type " + std::string(ir::to_string(n.type(typed).element)));
  const ValueId offset =
      n.has(zero) ? n.cast(result_parameter(n, y, zero, by_row), ElementType::kF32) : ir::kNoValue;
  n.bind(0, quantized(n, y, result_parameter(n, y, scale, by_row), offset, *range));
}

/// The operand at `i`, followed by its scale and zero point.
CodedOperand coded(std::size_t i) {
  return {.codes = i, .scale = i + 1, .zero = i + 2};
}

/// Computes the product in floats, so that it becomes a linear layer. Near a tie between two codes,
/// the result may differ by one code from that of exact sums (docs/inputs.md).
void convert_qlinear_matmul(NodeContext& n) {
  CodedOperand a = coded(0);
  a.by_row = true;
  const ValueId x = dequantized(n, a);
  bind_codes(n, n.make(ir::MatMul{}, {x, dequantized(n, coded(3))}), 6, 7, 0, /*by_row=*/true);
}

template <BinaryKind kind>
void convert_qlinear_binary(NodeContext& n) {
  bind_codes(n, binary(n, kind, dequantized(n, coded(0)), dequantized(n, coded(3))), 6, 7, 0);
}

void convert_qlinear_sigmoid(NodeContext& n) {
  bind_codes(n, unary(n, ir::UnaryKind::kSigmoid, dequantized(n, coded(0))), 3, 4, 0);
}

void convert_qlinear_leaky_relu(NodeContext& n) {
  const ValueId x = dequantized(n, coded(0));
  const ValueId slope = with_scalar(n, BinaryKind::kMul, x, n.number("alpha", 0.01f));
  bind_codes(n, n.make(ir::Where{}, {with_scalar(n, BinaryKind::kLess, x, 0), slope, x}), 3, 4, 0);
}

/// Softmax along an axis; until operator set 12 over all dims from the axis on.
void convert_qlinear_softmax(NodeContext& n) {
  const ValueId x = dequantized(n, coded(0));
  const bool flattens = n.integer("opset", 0) < 13;
  const std::int64_t axis = n.axis("axis", flattens ? 1 : -1, n.rank(x));
  if (n.failed()) return;
  ValueId y;
  if (!flattens || axis == n.rank(x) - 1) {
    y = n.make(ir::Softmax{axis}, {x});
  } else {
    y = n.make(ir::Softmax{-1}, {flattened(n, x, axis)});
    y = n.make(ir::Reshape{}, {y, shape_of(n, x)});
  }
  bind_codes(n, y, 3, 4, 0);
}

/// Operands: scale and zero point of the result, then codes, scale and zero point of each part.
void convert_qlinear_concat(NodeContext& n) {
  if (n.input_count() % 3 != 2) return n.bad("each operand needs a scale and a zero point");
  std::vector<ValueId> parts;
  for (std::size_t i = 2; i < n.input_count(); i += 3) parts.push_back(dequantized(n, coded(i)));
  if (n.failed()) return;
  const std::int64_t axis = n.axis("axis", 0, n.rank(parts[0]));
  bind_codes(n, n.make(ir::Concat{axis}, parts), 0, 1, 2);
}

void convert_qlinear_where(NodeContext& n) {
  const ValueId condition = n.in(0);
  const ValueId y =
      n.make(ir::Where{}, {condition, dequantized(n, coded(1)), dequantized(n, coded(4))});
  bind_codes(n, y, 7, 8, 1);
}

/// Gemm of codes. Operand 6 is an i32 bias with the scale of the product. Without operand 7, the
/// scale of y, y is f32.
void convert_qgemm(NodeContext& n) {
  const bool turn_a = n.integer("transA", 0) != 0, turn_b = n.integer("transB", 0) != 0;
  const float alpha = n.number("alpha", 1);
  CodedOperand b = coded(3);
  b.by_row = turn_b;
  const auto turned = [&](ValueId x, bool turn) {
    return turn ? n.make(ir::Transpose{{1, 0}}, {x}) : x;
  };
  const ValueId x = dequantized(n, coded(0)), weight = dequantized(n, b);
  if (n.failed()) return;
  if (n.rank(x) != 2 || n.rank(weight) != 2) return n.bad("its operands are not matrices");
  ValueId y = n.make(ir::MatMul{}, {turned(x, turn_a), turned(weight, turn_b)});
  if (n.has(6)) {
    const ValueId scale = binary(n, BinaryKind::kMul, n.in(1), n.in(4));
    y = binary(n, BinaryKind::kAdd, y,
               binary(n, BinaryKind::kMul, n.cast(n.in(6), ElementType::kF32), scale));
  }
  if (alpha != 1) y = with_scalar(n, BinaryKind::kMul, y, static_cast<double>(alpha));
  if (n.has(7)) return bind_codes(n, y, 7, 8, 0);
  n.bind(0, y);
}

void bind_with_bias(NodeContext& n, ValueId y, std::size_t bias) {
  n.bind(0, n.has(bias) ? binary(n, BinaryKind::kAdd, y, n.in(bias)) : y);
}

/// Operands: codes of a and b, their scales, their zero points, a bias.
void convert_matmul_integer_to_float(NodeContext& n) {
  const ValueId y =
      scaled_product(n, {.codes = 0, .scale = 2, .zero = 4}, {.codes = 1, .scale = 3, .zero = 5});
  bind_with_bias(n, y, 6);
}

/// Like MatMulIntegerToFloat, but quantizes a, which has floats. Operands: a, codes of b, their
/// scale and zero point, a bias.
void convert_dynamic_quantize_matmul(NodeContext& n) {
  const CodedOperand b{.codes = 1, .scale = 2, .zero = 3};
  const ValueId x = n.in(0);
  if (n.failed()) return;
  if (n.bypasses_quantization())
    return bind_with_bias(n, n.make(ir::MatMul{}, {x, dequantized(n, b)}), 4);
  const DynamicCodes a = dynamic_codes(n, x);
  bind_with_bias(n, scaled_product(n, a, b), 4);
}

}  // namespace

std::vector<OperatorRule> qlinear_rules() {
  return {
      onnx_rule("QLinearMatMul", 10, 8, convert_qlinear_matmul),
      contrib_rule("QLinearAdd", {7, 8}, convert_qlinear_binary<BinaryKind::kAdd>),
      contrib_rule("QLinearMul", {7, 8}, convert_qlinear_binary<BinaryKind::kMul>),
      contrib_rule("QLinearSigmoid", {4, 5}, convert_qlinear_sigmoid),
      contrib_rule("QLinearLeakyRelu", {4, 5}, convert_qlinear_leaky_relu, {"alpha"}),
      contrib_rule("QLinearSoftmax", 5, convert_qlinear_softmax, {"axis", "opset"}),
      contrib_rule("QLinearConcat", {5, kAnyCount}, convert_qlinear_concat, {"axis"}),
      contrib_rule("QLinearWhere", 9, convert_qlinear_where),
      contrib_rule("QGemm", {6, 9}, convert_qgemm, {"alpha", "transA", "transB"}),
      contrib_rule("MatMulIntegerToFloat", {4, 7}, convert_matmul_integer_to_float),
      contrib_rule("DynamicQuantizeMatMul", {3, 5}, convert_dynamic_quantize_matmul),
  };
}

}  // namespace llmc::importer

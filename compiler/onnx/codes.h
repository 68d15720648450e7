#pragma once

#include <cstddef>
#include <optional>

#include "compiler/onnx/node_context.h"

/// Tensors of codes: helpers for converters of quantized operators.
namespace llmc::importer {

/// Range of the codes of a data type, such as 0 to 255 for uint8.
struct CodeRange {
  ir::ElementType element = ir::ElementType::kU8;
  double low = 0, high = 255;
};
/// Return the range of a TensorProto.data_type, or of an element type; nullopt for other types.
std::optional<CodeRange> code_range(int data_type);
std::optional<CodeRange> code_range(ir::ElementType element);

/// Returns round(x / scale) + zero point, saturated to the range. Ties round to even.
ir::ValueId quantized(NodeContext& n, ir::ValueId x, ir::ValueId scale, ir::ValueId zero,
                      const CodeRange& range);

/// u8 codes that cover [min(x, 0), max(x, 0)], as DynamicQuantizeLinear computes them.
struct DynamicCodes {
  ir::ValueId codes, scale, zero;
};
DynamicCodes dynamic_codes(NodeContext& n, ir::ValueId x);

inline constexpr std::size_t kNoOperand = SIZE_MAX;

/// A quantized operand: the numbers of the node's operands with its codes, scale (default 1) and
/// zero point (default 0). Scale and zero point are scalars, or have one element for each column of
/// a matrix.
struct CodedOperand {
  std::size_t codes = kNoOperand, scale = kNoOperand, zero = kNoOperand;
  bool by_row = false;  // scale and zero point have one element for each row instead
};

/// Returns the operand as a quantized constant (ir::make_quantized), which preserves its codes.
/// Returns nullptr if codes, scale or zero point are not constant, or the codes are not a non-empty
/// matrix of a type with a code_range(), and after an error. Reports an error if scale or zero
/// point do not fit the codes, or if the codes have 16 bits.
ir::ConstantPtr coded_matrix(NodeContext& n, const CodedOperand& operand);

/// Returns the scale or zero point in operand `slot` in a shape that is broadcast to codes. With
/// `by_row`, a vector has one element for each row.
ir::ValueId code_parameter(NodeContext& n, std::size_t slot, bool by_row);

/// Returns (codes - zero point) * scale. A constant matrix becomes coded_matrix().
ir::ValueId dequantized(NodeContext& n, const CodedOperand& operand);

/// Returns the product of both operands' codes minus their zero points, computed in i32. A zero
/// point of `a` may be a vector with one element for each row.
ir::ValueId integer_product(NodeContext& n, const CodedOperand& a, const CodedOperand& b);

/// Returns integer_product() times both scales. If a's codes are floats, because the graph's
/// quantization is bypassed (Bindings::float_products), returns their product with the dequantized
/// b.
ir::ValueId scaled_product(NodeContext& n, const CodedOperand& a, const CodedOperand& b);
/// Returns the same for an operand `a` that the node itself quantizes.
ir::ValueId scaled_product(NodeContext& n, const DynamicCodes& a, const CodedOperand& b);

}  // namespace llmc::importer

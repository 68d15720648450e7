#pragma once

#include <cstddef>
#include <optional>

#include "compiler/onnx/node_context.h"

/// Tensors of codes: helpers for converters of quantized operators.
namespace llmc::importer {

/// The integers that are codes of a data type: 0 to 255 for uint8.
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

/// u8 codes that cover [min(x, 0), max(x, 0)], as DynamicQuantizeLinear makes them.
struct DynamicCodes {
  ir::ValueId codes, scale, zero;
};
DynamicCodes dynamic_codes(NodeContext& n, ir::ValueId x);

inline constexpr std::size_t kNoOperand = SIZE_MAX;

/// A quantized operand: which operands of the node hold its codes, scale (default 1) and zero point
/// (default 0). Both are scalars, or have one element for each column of a matrix.
struct CodedOperand {
  std::size_t codes = kNoOperand, scale = kNoOperand, zero = kNoOperand;
  bool by_row = false;  // one element for each row instead
};

/// Returns a constant matrix with its codes preserved. Returns nullptr if the codes are not a
/// constant matrix; reports an error if scale and zero point do not fit.
ir::ConstantPtr coded_matrix(NodeContext& n, const CodedOperand& operand);

/// Returns the scale or zero point in operand `slot` in a shape that is broadcast to codes. With
/// `by_row`, a vector has one element for each row.
ir::ValueId code_parameter(NodeContext& n, std::size_t slot, bool by_row);

/// Returns (codes - zero point) * scale. A constant matrix keeps its codes.
ir::ValueId dequantized(NodeContext& n, const CodedOperand& operand);

/// Returns the exact product of two operands without their scales, as i32. A zero point of `a` may
/// be a vector with one element for each row.
ir::ValueId integer_product(NodeContext& n, const CodedOperand& a, const CodedOperand& b);

/// Returns integer_product() times both scales. If a's codes are floats, because the graph's
/// quantization is left out (Bindings::float_products), their product with the dequantized b.
ir::ValueId scaled_product(NodeContext& n, const CodedOperand& a, const CodedOperand& b);
/// The same for codes that the node makes itself.
ir::ValueId scaled_product(NodeContext& n, const DynamicCodes& a, const CodedOperand& b);

}  // namespace llmc::importer

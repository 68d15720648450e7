#include "compiler/onnx/codes.h"

#include "compiler/onnx/lowering.h"
#include "compiler/onnx/tensor.h"

namespace llmc::importer {

using ir::BinaryKind;
using ir::ConstantPtr;
using ir::ElementType;
using ir::ReduceKind;
using ir::UnaryKind;
using ir::ValueId;

std::optional<CodeRange> code_range(int data_type) {
  if (data_type == kUint4) return CodeRange{ElementType::kU8, 0, 15};
  if (data_type == kInt4) return CodeRange{ElementType::kI8, -8, 7};
  const auto element = element_type(data_type);
  return element ? code_range(*element) : std::nullopt;
}

std::optional<CodeRange> code_range(ElementType element) {
  switch (element) {
    case ElementType::kU8:
      return CodeRange{element, 0, 255};
    case ElementType::kI8:
      return CodeRange{element, -128, 127};
    case ElementType::kU16:
      return CodeRange{element, 0, 65535};
    case ElementType::kI16:
      return CodeRange{element, -32768, 32767};
    default:
      return std::nullopt;
  }
}

ValueId quantized(NodeContext& n, ValueId x, ValueId scale, ValueId zero, const CodeRange& range) {
  ValueId value = unary(n, UnaryKind::kRound, binary(n, BinaryKind::kDiv, x, scale));
  if (zero.exists()) value = binary(n, BinaryKind::kAdd, value, zero);
  return n.cast(clipped(n, value, range.low, range.high), range.element);
}

DynamicCodes dynamic_codes(NodeContext& n, ValueId x) {
  const CodeRange range;
  const ValueId zero = n.make_scalar(0, x);
  const ValueId low = binary(n, BinaryKind::kMin, reduce(n, ReduceKind::kMin, x, {}, false), zero);
  const ValueId high = binary(n, BinaryKind::kMax, reduce(n, ReduceKind::kMax, x, {}, false), zero);
  const ValueId width = binary(n, BinaryKind::kSub, high, low);
  const ValueId scale = with_scalar(n, BinaryKind::kDiv, width, range.high);
  // If all elements are 0, the scale is 0, and dividing by it would give 0 / 0.
  const ValueId divisor = n.make(
      ir::Where{}, {with_scalar(n, BinaryKind::kEqual, scale, 0), n.make_scalar(1, x), scale});
  const ValueId middle =
      unary(n, UnaryKind::kRound,
            clipped(n, binary(n, BinaryKind::kDiv, binary(n, BinaryKind::kSub, zero, low), divisor),
                    range.low, range.high));
  return {quantized(n, x, divisor, middle, range), scale, n.cast(middle, range.element)};
}

ConstantPtr coded_matrix(NodeContext& n, const CodedOperand& operand) {
  ir::QuantizedParts parts;
  parts.codes = n.constant(operand.codes);
  const bool scaled = n.has(operand.scale), offset = n.has(operand.zero);
  const ConstantPtr scales = scaled ? n.constant(operand.scale) : nullptr;
  const ConstantPtr zeros = offset ? n.constant(operand.zero) : nullptr;
  if (n.failed() || !parts.codes || (scaled && !scales) || (offset && !zeros)) return nullptr;
  if (parts.codes->dims().size() != 2 || !code_range(parts.codes->element())) return nullptr;
  const std::int64_t rows = parts.codes->dims()[0], columns = parts.codes->dims()[1];
  if (rows < 1 || columns < 1) return nullptr;
  const std::int64_t groups = operand.by_row ? rows : columns;
  std::int64_t count = 1;
  for (const ConstantPtr& parameter : {scales, zeros}) {
    if (!parameter || parameter->element_count() == 1) continue;
    if (parameter->element_count() != groups)
      return n.bad("the number of its scales or zero points is neither 1 nor that of the " +
                   std::string(operand.by_row ? "rows" : "columns")),
             nullptr;
    count = groups;
  }
  parts.row_block = operand.by_row && count > 1 ? 1 : rows;
  parts.column_block = !operand.by_row && count > 1 ? 1 : columns;
  const std::vector<std::int64_t> dims =
      operand.by_row ? std::vector<std::int64_t>{count, 1} : std::vector<std::int64_t>{1, count};
  // A single number applies to all groups.
  const auto spread = [&](const ConstantPtr& parameter) {
    if (parameter->element_count() == count) return ir::reshaped(parameter, dims);
    return ir::make_splat(parameter->element(), dims, ir::to_doubles(*parameter)[0]);
  };
  parts.scales = scales ? spread(scales) : ir::make_splat(ElementType::kF32, dims, 1);
  if (zeros) parts.zero_points = spread(zeros);
  if (!ir::is_quantized_matrix(parts))
    return n.bad("types of its codes, scales and zero points do not fit"), nullptr;
  return ir::make_quantized(std::move(parts));
}

ValueId code_parameter(NodeContext& n, std::size_t slot, bool by_row) {
  const ValueId value = n.in(slot);
  if (n.failed() || !by_row || n.rank(value) != 1 || known_dim(n, value, 0) == 1) return value;
  return unsqueezed(n, value, {1});
}

namespace {

/// Returns the codes as i32, minus their zero point.
ValueId centred(NodeContext& n, const CodedOperand& operand) {
  const ValueId codes = n.in(operand.codes);
  if (!n.failed() && !code_range(n.type(codes).element))
    n.bad("its codes have type " + std::string(ir::to_string(n.type(codes).element)));
  if (n.failed()) return ir::kNoValue;
  const ValueId x = n.cast(codes, ElementType::kI32);
  if (!n.has(operand.zero)) return x;
  return binary(n, BinaryKind::kSub, x,
                n.cast(code_parameter(n, operand.zero, operand.by_row), ElementType::kI32));
}

}  // namespace

ValueId dequantized(NodeContext& n, const CodedOperand& operand) {
  if (const ConstantPtr matrix = coded_matrix(n, operand))
    return n.make_constant(matrix, n.input_name(operand.codes));
  const ValueId y = n.cast(centred(n, operand), ElementType::kF32);
  if (!n.has(operand.scale)) return y;
  return binary(n, BinaryKind::kMul, y, code_parameter(n, operand.scale, operand.by_row));
}

ValueId integer_product(NodeContext& n, const CodedOperand& a, const CodedOperand& b) {
  CodedOperand left = a;
  left.by_row = n.has(a.codes) && n.rank(n.in(a.codes)) > 1;
  return n.make(ir::MatMul{}, {centred(n, left), centred(n, b)});
}

namespace {

/// Returns the sums of an integer product times the scales of both operands.
ValueId scaled_sums(NodeContext& n, ValueId sums, ValueId scale, const CodedOperand& b) {
  if (n.has(b.scale))
    scale = binary(n, BinaryKind::kMul, scale, code_parameter(n, b.scale, b.by_row));
  return binary(n, BinaryKind::kMul, n.cast(sums, ElementType::kF32), scale);
}

}  // namespace

ValueId scaled_product(NodeContext& n, const CodedOperand& a, const CodedOperand& b) {
  const ValueId codes = n.in(a.codes);
  if (n.failed()) return ir::kNoValue;
  if (ir::is_float(n.type(codes).element)) {
    n.ignore_operand(a.scale);
    n.ignore_operand(a.zero);
    return n.make(ir::MatMul{}, {codes, dequantized(n, b)});
  }
  return scaled_sums(n, integer_product(n, a, b), n.in(a.scale), b);
}

ValueId scaled_product(NodeContext& n, const DynamicCodes& a, const CodedOperand& b) {
  const ValueId x = binary(n, BinaryKind::kSub, n.cast(a.codes, ElementType::kI32),
                           n.cast(a.zero, ElementType::kI32));
  return scaled_sums(n, n.make(ir::MatMul{}, {x, centred(n, b)}), a.scale, b);
}

}  // namespace llmc::importer

// Quantization operators and products of quantized tensors.

#include <limits>

#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/tensor.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::ElementType;
using ir::ReduceKind;
using ir::UnaryKind;
using ir::ValueId;

struct Codes {
  ElementType element = ElementType::kU8;
  double low = 0, high = 255;
};

/// Returns the code range of a quantized data type; nullopt for other types.
std::optional<Codes> codes_of(int data_type) {
  if (data_type == kUint4) return Codes{ElementType::kU8, 0, 15};
  if (data_type == kInt4) return Codes{ElementType::kI8, -8, 7};
  const auto element = element_type(data_type);
  if (!element) return std::nullopt;
  switch (*element) {
    case ElementType::kU8:
      return Codes{*element, 0, 255};
    case ElementType::kI8:
      return Codes{*element, -128, 127};
    case ElementType::kU16:
      return Codes{*element, 0, 65535};
    case ElementType::kI16:
      return Codes{*element, -32768, 32767};
    default:
      return std::nullopt;
  }
}

/// Returns the code range of an element type; nullopt for other types.
std::optional<Codes> codes_of(ElementType element) {
  switch (element) {
    case ElementType::kU8:
      return codes_of(onnx::TensorProto::UINT8);
    case ElementType::kI8:
      return codes_of(onnx::TensorProto::INT8);
    case ElementType::kU16:
      return codes_of(onnx::TensorProto::UINT16);
    case ElementType::kI16:
      return codes_of(onnx::TensorProto::INT16);
    default:
      return std::nullopt;
  }
}

/// round(x / scale) + zero point, saturated to the range of the codes. Ties round to even.
ValueId quantized(NodeContext& n, ValueId x, ValueId scale, ValueId zero, const Codes& codes) {
  ValueId value = unary(n, UnaryKind::kRound, binary(n, BinaryKind::kDiv, x, scale));
  if (zero.exists()) value = binary(n, BinaryKind::kAdd, value, zero);
  return n.cast(clipped(n, value, codes.low, codes.high), codes.element);
}

/// QuantizeLinear. The code type is output_dtype if present, otherwise that of the zero point,
/// otherwise u8.
void convert_quantize_linear(NodeContext& n) {
  const ValueId x = n.cast(n.in(0), ElementType::kF32), scale = n.in(1);
  if (n.failed()) return;
  const std::vector<ir::Dim> dims = n.type(x).dims;
  const std::int64_t given = n.integer("output_dtype", 0);
  n.ignore("saturate");   // applies to 8-bit floats only
  n.ignore("precision");  // always f32
  const int asked = given > 0 && given < INT_MAX ? static_cast<int>(given) : 0;
  const int zero_type = n.has(2) ? n.declared_type(2) : 0;
  if (asked && zero_type && asked != zero_type)
    return n.bad("its zero point is " + data_type_name(zero_type) + ", but its output_dtype is " +
                 data_type_name(asked));
  const int data_type = asked ? asked : n.has(2) ? zero_type : onnx::TensorProto::UINT8;
  std::optional<Codes> codes = codes_of(data_type);
  if (data_type == 0) {  // the zero point is computed
    const ElementType element = n.type(n.in(2)).element;
    codes = codes_of(element);
    if (!codes)
      return n.bad("its zero point is " + std::string(ir::to_string(element)) +
                   ", not an integer type for codes");
  }
  if (!codes && element_type(data_type))
    return n.bad("cannot quantize to " + data_type_name(data_type) +
                 ", not an integer type for codes");
  if (!codes)
    return n.unsupported("quantizing to " + data_type_name(data_type) + " is not supported");
  const auto g = granularity(n, dims);
  if (!g || !zero_point_fits(n)) return;
  const ValueId spread_scale = spread(n, n.cast(scale, ElementType::kF32), dims, *g);
  ValueId zero;
  if (n.has(2)) zero = spread(n, n.cast(n.in(2), ElementType::kF32), dims, *g);
  n.bind(0, quantized(n, x, spread_scale, zero, *codes));
}

/// DynamicQuantizeLinear: u8 codes that cover [min(x, 0), max(x, 0)], their scale and zero point.
void convert_dynamic_quantize_linear(NodeContext& n) {
  const ValueId x = n.in(0);
  if (n.failed()) return;
  if (n.in_floats()) return bypass_quantize(n);
  const Codes codes;
  const ValueId zero = n.make_scalar(0, x);
  const ValueId low = binary(n, BinaryKind::kMin, reduce(n, ReduceKind::kMin, x, {}, false), zero);
  const ValueId high = binary(n, BinaryKind::kMax, reduce(n, ReduceKind::kMax, x, {}, false), zero);
  const ValueId range = binary(n, BinaryKind::kSub, high, low);
  const ValueId scale = with_scalar(n, BinaryKind::kDiv, range, codes.high);
  // If all elements are 0, the scale is 0, and dividing by it would give 0 / 0.
  const ValueId divisor = n.make(
      ir::Where{}, {with_scalar(n, BinaryKind::kEqual, scale, 0), n.make_scalar(1, x), scale});
  const ValueId middle =
      unary(n, UnaryKind::kRound,
            clipped(n, binary(n, BinaryKind::kDiv, binary(n, BinaryKind::kSub, zero, low), divisor),
                    codes.low, codes.high));
  n.bind(0, quantized(n, x, divisor, middle, codes));
  n.bind(1, scale);
  n.bind(2, n.cast(middle, codes.element));
}

/// Returns operand i as i32 minus its zero point. The zero point, operand `zero`, is a scalar, a
/// vector with one element per row (`by_row`) or column, or a tensor of the operand's rank.
ValueId centred(NodeContext& n, std::size_t i, std::size_t zero, bool by_row) {
  const ValueId x = n.cast(n.in(i), ElementType::kI32);
  if (!n.has(zero)) return x;
  ValueId point = n.cast(n.in(zero), ElementType::kI32);
  if (n.failed()) return ir::kNoValue;
  if (by_row && n.rank(point) == 1 && n.rank(x) > 1 && known_dim(n, point, 0) != 1)
    point = unsqueezed(n, point, {1});
  return binary(n, BinaryKind::kSub, x, point);
}

void convert_matmul_integer(NodeContext& n) {
  if (n.has(0) && ir::is_float(n.type(n.in(0)).element)) return convert_float_product(n);
  n.emit(ir::MatMul{}, {centred(n, 0, 2, true), centred(n, 1, 3, false)});
}

}  // namespace

std::vector<OperatorRule> integer_rules() {
  const std::vector<std::string_view> quantize{"axis", "block_size", "output_dtype", "precision",
                                               "saturate"};
  return {
      {"", "QuantizeLinear", 10, kAnyLater, 2, 3, quantize, convert_quantize_linear},
      {"", "DynamicQuantizeLinear", 11, kAnyLater, 1, 1, {}, convert_dynamic_quantize_linear},
      {"", "MatMulInteger", 10, kAnyLater, 2, 4, {}, convert_matmul_integer},
  };
}

}  // namespace llmc::importer

// Quantization operators and products of quantized tensors.

#include "compiler/onnx/codes.h"
#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/tensor.h"

namespace llmc::importer {
namespace {

using ir::ElementType;
using ir::ValueId;

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
  std::optional<CodeRange> codes = code_range(data_type);
  if (data_type == 0) {  // the zero point is computed
    const ElementType element = n.type(n.in(2)).element;
    codes = code_range(element);
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
  if (n.bypasses_quantization()) return bypass_quantize(n);
  const DynamicCodes made = dynamic_codes(n, x);
  n.bind(0, made.codes);
  n.bind(1, made.scale);
  n.bind(2, made.zero);
}

void convert_matmul_integer(NodeContext& n) {
  if (n.has(0) && ir::is_float(n.type(n.in(0)).element)) return convert_float_product(n);
  n.bind(0, integer_product(n, {.codes = 0, .zero = 2}, {.codes = 1, .zero = 3}));
}

}  // namespace

std::vector<OperatorRule> integer_rules() {
  const std::vector<std::string_view> quantize{"axis", "block_size", "output_dtype", "precision",
                                               "saturate"};
  return {
      onnx_rule("QuantizeLinear", 10, {2, 3}, convert_quantize_linear, quantize),
      onnx_rule("DynamicQuantizeLinear", 11, 1, convert_dynamic_quantize_linear),
      onnx_rule("MatMulInteger", 10, {2, 4}, convert_matmul_integer),
  };
}

}  // namespace llmc::importer

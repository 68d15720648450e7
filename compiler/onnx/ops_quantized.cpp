// Operators with quantized weights. Constant matrices become constants that preserve their codes
// (ir::make_quantized); other operands become arithmetic.

#include <algorithm>

#include "compiler/ir/constant.h"
#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/tensor.h"
#include "compiler/support/checked_math.h"

namespace llmc::importer {
namespace {

using ir::ConstantPtr;
using ir::ElementType;
using ir::ValueId;

bool is_code(const ConstantPtr& constant) {
  return constant->element() == ElementType::kI8 || constant->element() == ElementType::kU8;
}

std::string elements_text(std::int64_t count) {
  return std::to_string(count) + " elements";
}

/// Returns an operand, a constant with rows * columns elements, as a [rows, columns] matrix.
ConstantPtr parameter_matrix(NodeContext& n, ConstantPtr constant, const char* what,
                             std::int64_t rows, std::int64_t columns) {
  if (!constant) {
    n.unsupported(std::string(what) + " that are not constant are not supported");
    return nullptr;
  }
  const auto count = checked_mul(rows, columns);
  if (!count || constant->element_count() != *count) {
    n.bad(std::string("has ") + what + " of " + elements_text(constant->element_count()) +
          ", not [" + std::to_string(rows) + ", " + std::to_string(columns) + "]");
    return nullptr;
  }
  return ir::reshaped(std::move(constant), {rows, columns});
}

/// Returns the zero points, which have as many bits as the codes, with each row padded to a whole
/// byte.
ConstantPtr packed_zero_points(NodeContext& n, const ConstantPtr& source, int bits,
                               std::int64_t rows, std::int64_t blocks) {
  if (!source) {
    n.unsupported("zero points that are not constant are not supported");
    return nullptr;
  }
  const std::int64_t stride = bits == 4 ? ceil_div(blocks, 2) * 2 : blocks;
  const std::int64_t row_bytes = stride * bits / 8;
  const auto bytes = checked_mul(rows, row_bytes);
  if (!bytes || source->element_count() != *bytes) {
    n.bad("has zero points of " + elements_text(source->element_count()) + ", not " +
          std::to_string(rows) + " rows of " + std::to_string(row_bytes) + " bytes");
    return nullptr;
  }
  return ir::make_packed(source, {bits, ir::PackedCode::kUnsigned, stride}, {rows, blocks});
}

/// Makes the quantized constant. Reports an error if the scales are not floats.
ConstantPtr quantized(NodeContext& n, ir::QuantizedParts parts) {
  if (n.failed()) return nullptr;
  if (!ir::is_quantized_matrix(parts)) {
    n.bad("types or dims of codes, scales and zero points do not match");
    return nullptr;
  }
  return ir::make_quantized(std::move(parts));
}

}  // namespace

ConstantPtr packed_matrix(NodeContext& n, const PackedMatrix& m) {
  const ConstantPtr codes = n.constant(m.codes);
  if (n.failed()) return nullptr;
  if (!codes) {
    n.unsupported("weights that are not constant are not supported");
    return nullptr;
  }
  if (codes->element() != ElementType::kU8) {
    n.unsupported("weights packed in " + std::string(ir::to_string(codes->element())) +
                  " are not supported");
    return nullptr;
  }
  const std::int64_t blocks = ceil_div(m.columns, m.block);
  const auto count = checked_mul(m.rows, m.stride);
  if (!count || m.stride % (8 / m.bits) != 0 || codes->element_count() != *count / (8 / m.bits)) {
    n.bad("its weights of " + elements_text(codes->element_count()) + " are not " +
          std::to_string(m.rows) + " rows of " + std::to_string(blocks) + " blocks of " +
          std::to_string(m.block) + " " + std::to_string(m.bits) + "-bit codes");
    return nullptr;
  }
  ir::QuantizedParts parts;
  parts.column_block = m.block;
  parts.scales = parameter_matrix(n, n.constant(m.scales), "scales", m.rows, blocks);
  ir::PackedForm form{m.bits, ir::PackedCode::kUnsigned, m.stride};
  if (!n.has(m.zero_points)) {
    form.code = ir::PackedCode::kOffset;
  } else if (n.constant(m.zero_points) &&
             n.constant(m.zero_points)->element() != ElementType::kU8) {
    parts.zero_points =
        parameter_matrix(n, n.constant(m.zero_points), "zero points", m.rows, blocks);
  } else {
    parts.zero_points = packed_zero_points(n, n.constant(m.zero_points), form.bits, m.rows, blocks);
  }
  if (n.failed()) return nullptr;
  parts.codes = ir::make_packed(codes, form, {m.rows, m.columns});
  return quantized(n, std::move(parts));
}

namespace {

/// MatMulNBits: y = A · dequantized(B)ᵀ (+ bias). B is u8 [N, ceil(K / block), block * bits / 8],
/// low bits first.
void convert_matmul_nbits(NodeContext& n) {
  const std::int64_t k = n.integer("K", 0), rows = n.integer("N", 0);
  const std::int64_t bits = n.integer("bits", 4), block = n.integer("block_size", 0);
  n.ignore("accuracy_level");
  if (n.has(4))
    return n.unsupported("reordered columns (g_idx) are not supported",
                         "quantize without act-order (desc_act)");
  if (bits != 4 && bits != 8)
    return n.unsupported(std::to_string(bits) + "-bit weights are not supported",
                         "4 and 8 bits are");
  if (k < 1 || rows < 1 || block < 1) return n.bad("K, N and block_size must be positive");
  const auto stride = checked_mul(ceil_div(k, block), block);
  if (!stride) return n.bad("K and block_size are too large");
  const ConstantPtr weight = packed_matrix(n, {.bits = static_cast<int>(bits),
                                               .rows = rows,
                                               .columns = k,
                                               .block = block,
                                               .stride = *stride,
                                               .codes = 1,
                                               .scales = 2,
                                               .zero_points = 3});
  if (!weight) return;
  const ValueId matrix = n.make_constant(ir::transposed(weight), n.input_name(1));
  if (!n.has(5)) return n.emit(ir::MatMul{}, {n.in(0), matrix});
  n.emit(ir::Binary{ir::BinaryKind::kAdd}, {n.make(ir::MatMul{}, {n.in(0), matrix}), n.in(5)});
}

/// Replaces the parts of stacked matrices [count, rows, columns] by the parts of matrix `index`. If
/// `index` is absent, joins all matrices to [count * rows, columns]. Reports an error and returns
/// false if the parts do not fit.
bool unstack(NodeContext& n, std::optional<std::int64_t> index,
             const std::vector<ConstantPtr*>& parts) {
  const std::int64_t count = (*parts[0])->dims()[0];
  if (index && (*index >= count || *index < -count)) {
    n.bad("selects matrix " + std::to_string(*index) + " of " + std::to_string(count));
    return false;
  }
  for (ConstantPtr* part : parts) {
    if (!*part) continue;
    const std::vector<std::int64_t> dims = (*part)->dims();
    const auto rows = dims.size() == 3 ? checked_mul(count, dims[1]) : std::nullopt;
    if (!rows || dims[0] != count) {
      n.bad("its scales or zero points are not those of " + std::to_string(count) + " matrices");
      return false;
    }
    *part = index ? ir::matrix_of_stack(*part, *index < 0 ? *index + count : *index)
                  : ir::reshaped(*part, {*rows, dims[2]});
  }
  return true;
}

/// GatherBlockQuantized: rows of a table that is quantized in blocks along its rows, or one of
/// several matrices [count, rows, columns] that are quantized in blocks along rows or columns.
void convert_gather_block_quantized(NodeContext& n) {
  ConstantPtr data = n.constant(0), scales = n.constant(2), zero_points = n.constant(3);
  if (!data) return n.unsupported("a table that is not constant is not supported");
  const std::size_t rank = data->dims().size();
  if ((rank != 2 && rank != 3) || !is_code(data))
    return n.unsupported(
        "a table that is neither a matrix of integers nor several of them is not "
        "supported");
  const auto last = static_cast<std::int64_t>(rank) - 1;
  const std::int64_t gather_axis = n.axis("gather_axis", 0, last + 1);
  const std::int64_t quantize_axis = n.axis("quantize_axis", 1, last + 1);
  const std::int64_t block = n.integer("block_size", 128), given_bits = n.integer("bits", 4);
  if (n.failed()) return;
  if (gather_axis != 0 || quantize_axis == 0)
    return n.unsupported("gather_axis other than 0 and quantize_axis 0 are not supported");
  if (block < 1) return n.bad("block_size must be positive");
  // The default zero point is the midpoint for packed codes in u8, and 0 for int4 and uint4.
  const bool stored_bytes = data->element_bits() == 8 && data->element() == ElementType::kU8;
  const std::int64_t bits = stored_bytes ? given_bits : data->element_bits();
  if (bits != 4 && bits != 8)
    return n.unsupported(std::to_string(bits) + "-bit codes are not supported");
  const std::vector<std::int64_t> stored = data->dims();
  const auto indices = n.known_integers(1);
  const bool selects = rank == 3 && indices && indices->size() == 1;
  if (rank == 3 && !unstack(n, selects ? std::optional((*indices)[0]) : std::nullopt,
                            {&data, &scales, &zero_points}))
    return;
  const std::int64_t rows = data->dims()[0];
  const std::int64_t columns = stored_bytes ? data->dims()[1] * (8 / bits) : data->dims()[1];
  const bool along_columns = quantize_axis == last;  // a row has several scales
  if (!along_columns && !selects && stored[1] % block != 0)
    return n.unsupported("blocks that do not divide the rows of a matrix are not supported");
  if (!along_columns && stored_bytes && bits != 8)
    return n.unsupported("packed codes that are quantized along another axis are not supported");
  ir::QuantizedParts parts;
  (along_columns ? parts.column_block : parts.row_block) = block;
  const std::int64_t scale_rows = ceil_div(rows, parts.row_block);
  const std::int64_t scale_columns = ceil_div(columns, parts.column_block);
  parts.scales = parameter_matrix(n, scales, "scales", scale_rows, scale_columns);
  ir::PackedForm form{static_cast<int>(bits)};
  if (n.has(3)) {
    parts.zero_points =
        stored_bytes ? packed_zero_points(n, zero_points, form.bits, scale_rows, scale_columns)
                     : parameter_matrix(n, zero_points, "zero points", scale_rows, scale_columns);
  } else if (stored_bytes) {
    form.code = ir::PackedCode::kOffset;
  }
  if (n.failed()) return;
  parts.codes = stored_bytes ? ir::make_packed(data, form, {rows, columns}) : data;
  const ConstantPtr table = quantized(n, std::move(parts));
  if (!table) return;
  if (!selects) {
    const ConstantPtr all =
        rank == 2 ? table : ir::reshaped(table, {stored[0], stored[1], columns});
    return n.emit(ir::Gather{0}, {n.make_constant(all, n.input_name(0)), n.in(1)});
  }
  const ValueId matrix = n.make_constant(table, n.input_name(0));
  std::vector<std::int64_t> dims(static_cast<std::size_t>(n.rank(n.in(1))), 1);
  dims.insert(dims.end(), {rows, columns});
  n.bind(0, dims.size() == 2 ? matrix : reshaped(n, matrix, dims));
}

}  // namespace

std::optional<Granularity> granularity(NodeContext& n, const std::vector<ir::Dim>& dims) {
  const ir::TensorType& scale = n.type(n.in(1));
  const auto rank = static_cast<std::int64_t>(dims.size());
  Granularity g;
  const auto scales = ir::element_count(scale);
  if (scale.rank() == 0 || (scale.rank() == 1 && scales == 1)) {
    n.ignore("axis");
    n.ignore("block_size");
    g.whole = true;
    return g;
  }
  g.axis = n.axis("axis", 1, rank);
  const std::int64_t block = n.integer("block_size", 0);
  if (n.failed()) return std::nullopt;
  if (scale.rank() == 1 && block == 0) return g;
  if (scale.rank() != dims.size() || block < 0) {
    n.bad("its scale fits neither the tensor, an axis of it, nor blocks along one");
    return std::nullopt;
  }
  g.block = block;
  const auto whole = dims[static_cast<std::size_t>(g.axis)].constant();
  const auto parts = scale.dims[static_cast<std::size_t>(g.axis)].constant();
  if (block == 0) {  // omitted by some writers; derived from the dims
    if (!whole || !parts || *parts < 1) {
      n.bad("block_size is missing");
      return std::nullopt;
    }
    g.block = ceil_div(*whole, *parts);
  }
  if (g.block < 1 || (whole && parts && ceil_div(*whole, g.block) != *parts)) {
    n.bad("its scale has " + std::to_string(parts.value_or(0)) + " blocks along axis " +
          std::to_string(g.axis) + ", which do not fit " + std::to_string(whole.value_or(0)) +
          " elements in blocks of " + std::to_string(g.block));
    return std::nullopt;
  }
  return g;
}

bool zero_point_fits(NodeContext& n) {
  if (!n.has(2) || n.failed()) return !n.failed();
  const ir::TensorType &scale = n.type(n.in(1)), &zero = n.type(n.in(2));
  const bool both_one = ir::element_count(scale) == 1 && ir::element_count(zero) == 1;
  if (both_one || (scale.rank() == zero.rank() &&
                   std::ranges::equal(scale.dims, zero.dims, [](const auto& a, const auto& b) {
                     return ir::compatible(a, b);
                   })))
    return true;
  n.bad("its zero point " + ir::to_string(zero) + " and its scale " + ir::to_string(scale) +
        " differ in shape");
  return false;
}

ValueId spread(NodeContext& n, ValueId parameter, const std::vector<ir::Dim>& dims,
               const Granularity& g) {
  const auto rank = static_cast<std::int64_t>(dims.size());
  if (g.whole) return n.make(ir::Reshape{}, {parameter, n.make_integers({})});
  if (n.rank(parameter) == 1) {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(rank - g.axis), 1);
    shape[0] = -1;
    return n.make(ir::Reshape{}, {parameter, n.make_integers(std::move(shape))});
  }
  const auto size = dims[static_cast<std::size_t>(g.axis)].constant();
  if (!size) {
    n.unsupported("blocks along a dim of unknown size are not supported");
    return ir::kNoValue;
  }
  const ValueId all =
      n.make(ir::Range{}, {n.make_integers({0}), n.make_integers({*size}), n.make_integers({1})});
  const ValueId block_of =
      n.make(ir::Binary{ir::BinaryKind::kDiv}, {all, n.make_integers({g.block})});
  return n.make(ir::Gather{g.axis}, {parameter, block_of});
}

namespace {

/// Returns the dequantized matrix of constant codes; nullptr if an operand is not a constant
/// matrix, or after an error.
ConstantPtr dequantized_matrix(NodeContext& n, const ConstantPtr& codes, const Granularity& g) {
  ConstantPtr scales = n.constant(1), zeros = n.constant(2);
  if (!codes || !scales || (n.has(2) && !zeros)) return nullptr;
  if (codes->dims().size() != 2 || !is_code(codes)) return nullptr;
  const std::int64_t rows = codes->dims()[0], columns = codes->dims()[1];
  if (rows < 1 || columns < 1) return nullptr;
  ir::QuantizedParts parts;
  parts.codes = codes;
  parts.row_block = rows;
  parts.column_block = columns;
  if (!g.whole) {
    (g.axis == 0 ? parts.row_block : parts.column_block) = g.block;
    if (n.type(n.in(1)).rank() == 2) (g.axis == 0 ? parts.column_block : parts.row_block) = 1;
  }
  const std::int64_t scale_rows = ceil_div(rows, parts.row_block);
  const std::int64_t scale_columns = ceil_div(columns, parts.column_block);
  parts.scales = parameter_matrix(n, n.constant(1), "scales", scale_rows, scale_columns);
  if (zeros)
    parts.zero_points =
        parameter_matrix(n, n.constant(2), "zero points", scale_rows, scale_columns);
  return quantized(n, std::move(parts));
}

bool is_code_type(ElementType element) {
  return element == ElementType::kI8 || element == ElementType::kU8 ||
         element == ElementType::kI16 || element == ElementType::kU16 ||
         element == ElementType::kI32;
}

/// DequantizeLinear: y = (x - zero point) * scale, per tensor, per index along an axis, or per
/// block along an axis.
void convert_dequantize_linear(NodeContext& n) {
  const ValueId x = n.in(0), scale = n.in(1);
  n.ignore("output_dtype");  // floats are f32
  if (n.failed()) return;
  const std::vector<ir::Dim> dims = n.type(x).dims;
  if (!ir::is_float(n.type(scale).element)) return n.bad("its scale is not a float");
  if (!is_code_type(n.type(x).element))
    return n.bad("its operand has type " + std::string(ir::to_string(n.type(x).element)) +
                 ", not an integer type for codes");
  if (n.has(2)) {
    const ElementType zero = n.type(n.in(2)).element;
    const int codes_type = n.declared_type(0), zero_type = n.declared_type(2);
    if (zero != n.type(x).element || (codes_type && zero_type && codes_type != zero_type))
      return n.bad("its zero point is " +
                   (zero_type ? data_type_name(zero_type) : std::string(ir::to_string(zero))) +
                   ", but its operand has type " +
                   (codes_type ? data_type_name(codes_type)
                               : std::string(ir::to_string(n.type(x).element))));
  }
  const auto g = granularity(n, dims);
  if (!g || !zero_point_fits(n)) return;
  if (const ConstantPtr weight = dequantized_matrix(n, n.constant(0), *g))
    return n.bind(0, n.make_constant(weight, n.input_name(0)));
  // Rows gathered from a table of codes become rows gathered from the quantized table.
  if (const auto* gathered = n.gathered(0); gathered && g->whole && !n.failed()) {
    const auto [table, indices] = *gathered;
    if (const ConstantPtr weight = dequantized_matrix(n, table, *g))
      return n.emit(ir::Gather{0}, {n.make_constant(weight), indices});
  }
  if (n.failed()) return;
  ValueId value = n.cast(x, ElementType::kF32);
  if (n.has(2)) {
    const ValueId zero = n.cast(spread(n, n.in(2), dims, *g), ElementType::kF32);
    value = n.make(ir::Binary{ir::BinaryKind::kSub}, {value, zero});
  }
  n.emit(ir::Binary{ir::BinaryKind::kMul}, {value, spread(n, scale, dims, *g)});
}

}  // namespace

std::vector<OperatorRule> quantized_rules() {
  return {
      onnx_rule("DequantizeLinear", 10, {2, 3}, convert_dequantize_linear,
                {"axis", "block_size", "output_dtype"}),
      contrib_rule("DequantizeLinear", {2, 3}, convert_dequantize_linear, {"axis", "block_size"}),
      contrib_rule("MatMulNBits", {3, 6}, convert_matmul_nbits,
                   {"K", "N", "bits", "block_size", "accuracy_level"}),
      contrib_rule("GatherBlockQuantized", {3, 4}, convert_gather_block_quantized,
                   {"gather_axis", "quantize_axis", "block_size", "bits"}),
  };
}

}  // namespace llmc::importer

// Operators that move elements: Cast, Concat, Split, Slice, Gather, Transpose, …

#include <algorithm>
#include <numeric>
#include <optional>

#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/tensor.h"

namespace llmc::importer {
namespace {

using ir::ElementType;
using ir::ValueId;

/// Casts to `to`. Values of f16 and bf16 are represented as f32, and rounded if casts are exact
/// (Bindings::exact_casts).
void cast_to(NodeContext& n, ElementType to) {
  const ValueId x = n.in(0);
  if (n.failed()) return;
  const bool narrow = to == ElementType::kF16 || to == ElementType::kBF16;
  const ElementType wide = narrow ? ElementType::kF32 : to;
  if (narrow && n.exact_casts()) return n.emit(ir::Cast{wide}, {n.make(ir::Cast{to}, {x})});
  if (n.type(x).element == wide) return n.bind(0, x);
  // Sizes may be computed in floats.
  if (ir::is_float(n.type(x).element) && ir::is_integer(wide))
    return n.bind(0, n.computed(n.make(ir::Cast{wide}, {x})));
  n.emit(ir::Cast{wide}, {x});
}

void convert_identity(NodeContext& n) {
  n.bind(0, n.in(0));
}

/// Dropout for inference: the identity.
void convert_dropout(NodeContext& n) {
  const ValueId x = n.in(0);
  if (n.opset() < 7 && n.integer("is_test", 0) == 0 && !n.failed())
    return n.unsupported("training mode is not supported", "export the model for inference");
  // The ratio is an attribute until version 11. Inference does not use it.
  n.ignore(n.opset() < 12 ? "ratio" : "seed");
  if (n.opset() >= 12) n.ignore_operand(1);
  if (n.failed()) return;
  if (n.opset() >= 12 && n.has(2)) {
    const auto training = n.known_integers(2);
    const auto ratio = n.constant(1);
    const bool drops_nothing =
        ratio && ratio->element_count() == 1 && ir::to_doubles(*ratio)[0] == 0;
    const bool inference = training && training->size() == 1 && (*training)[0] == 0;
    if (!inference && !drops_nothing)
      return n.unsupported("training mode is not supported", "export the model for inference");
  }
  n.bind(0, x);
  if (!n.wants(1)) return;
  // The mask is all true. Until version 9 it has the type of x.
  const ElementType element = n.opset() < 10 ? n.type(x).element : ElementType::kBool;
  n.bind(1, n.make(ir::ConstantOfShape{ir::make_splat(element, {1}, 1)},
                   {n.make(ir::Shape{0, n.rank(x)}, {x})}));
}

/// Casts to 4-bit integers, represented as i8 or u8: keeps the low four bits.
void cast_to_4_bits(NodeContext& n, bool is_signed) {
  ValueId x = n.cast(n.in(0), ElementType::kI32);
  const auto with = [&](ir::BinaryKind kind, double number) {
    x = n.make(ir::Binary{kind}, {x, n.make_scalar(number, x)});
  };
  if (is_signed) with(ir::BinaryKind::kAdd, 8);
  with(ir::BinaryKind::kMod, 16);
  if (is_signed) with(ir::BinaryKind::kSub, 8);
  n.emit(ir::Cast{is_signed ? ElementType::kI8 : ElementType::kU8}, {x});
}

/// Casts to the TensorProto.data_type `to`.
void cast_to_type(NodeContext& n, int to) {
  if (to == kUint4 || to == kInt4) return cast_to_4_bits(n, to == kInt4);
  if (const auto type = element_type(to)) return cast_to(n, *type);
  n.unsupported("a cast to elements of type " + data_type_name(to) + " is not supported");
}

/// Ignores the attributes for casts to 8-bit floats.
void ignore_rounding(NodeContext& n) {
  n.ignore("saturate");
  n.ignore("round_mode");
}

/// Cast. Until version 5 the type is a name.
void convert_cast(NodeContext& n) {
  if (n.opset() < 6) {
    const std::string name = n.text("to", "");
    onnx::TensorProto::DataType type{};
    if (n.failed()) return;
    if (!onnx::TensorProto::DataType_Parse(name, &type))
      return n.bad("attribute 'to' names no type");
    return cast_to_type(n, type);
  }
  const auto to = n.integer("to", 0);
  ignore_rounding(n);
  if (n.failed()) return;
  cast_to_type(n, static_cast<int>(std::clamp<std::int64_t>(to, -1, 1000)));
}

/// CastLike: casts to the declared type of operand 1, or to the type of its value if none is
/// declared.
void convert_cast_like(NodeContext& n) {
  const ValueId like = n.in(1);
  ignore_rounding(n);
  if (n.failed()) return;
  const int declared = n.declared_type(1);
  if (declared != 0) return cast_to_type(n, declared);
  cast_to(n, n.type(like).element);
}

void convert_transpose(NodeContext& n) {
  const ValueId x = n.in(0);
  auto perm = n.integers("perm");
  if (n.failed()) return;
  if (!perm) {
    perm.emplace(n.type(x).rank());
    std::iota(perm->rbegin(), perm->rend(), 0);
  }
  // PyTorch also writes negative axes, which count from the end.
  for (std::int64_t& axis : *perm)
    if (axis < 0) axis += static_cast<std::int64_t>(n.type(x).rank());
  n.emit(ir::Transpose{std::move(*perm)}, {x});
}

/// Concat. Until version 3 the axis is 1 by default.
void convert_concat(NodeContext& n) {
  const auto inputs = n.all_inputs();
  if (n.failed()) return;
  if (n.opset() >= 4 && !n.has_attribute("axis")) return n.bad("attribute 'axis' is missing");
  const auto axis = n.axis("axis", 1, n.rank(inputs[0]));
  if (inputs.size() == 1) return n.bind(0, inputs[0]);
  n.emit(ir::Concat{axis}, inputs);
}

/// Split. The sizes are an attribute until version 12, operand 1 in version 1 and from 13 on;
/// without them a dim of known size is split into equal parts.
void convert_split(NodeContext& n) {
  const ValueId x = n.in(0);
  const auto axis = n.axis("axis", 0, n.rank(x));
  if (n.failed()) return;
  const auto parts = static_cast<std::int64_t>(n.output_count());
  if (n.opset() >= 18 && n.integer("num_outputs", parts) != parts)
    return n.bad("num_outputs differs from the number of outputs");
  std::optional<std::vector<std::int64_t>> sizes;
  if (n.opset() < 13) sizes = n.integers("split");
  if ((n.opset() < 2 || n.opset() >= 13) && n.has(1)) {
    sizes = n.known_integers(1);
    if (!sizes) return n.unsupported("part sizes that are not constant are not supported");
  }
  if (!sizes) {
    const auto dim = n.type(x).dims[static_cast<std::size_t>(axis)].constant();
    if (!dim) return n.unsupported("equal parts of a dim of unknown size are not supported");
    const std::int64_t part = (*dim + parts - 1) / parts;
    if (n.opset() < 18 && part * parts != *dim)
      return n.bad("dim " + std::to_string(*dim) + " does not split into " + std::to_string(parts) +
                   " equal parts");
    sizes.emplace(static_cast<std::size_t>(parts), part);
    sizes->back() = *dim - part * (parts - 1);
  }
  if (n.failed()) return;
  if (sizes->size() != n.output_count())
    return n.bad("has " + std::to_string(sizes->size()) + " part sizes for " +
                 std::to_string(parts) + " outputs");
  for (const auto size : *sizes)
    if (size < 0) return n.bad("has a part of negative size " + std::to_string(size));
  n.emit(ir::Split{axis, std::move(*sizes)}, {x});
}

/// Slice. The bounds are attributes until version 9, operands from 10 on.
void convert_slice(NodeContext& n) {
  const ValueId x = n.in(0);
  if (n.opset() >= 10)
    return n.emit(ir::Slice{}, {x, n.in(1), n.in(2), n.optional_in(3), n.optional_in(4)});
  auto starts = n.integers("starts"), ends = n.integers("ends"), axes = n.integers("axes");
  if (n.failed()) return;
  if (!starts || !ends) return n.bad("attribute 'starts' or 'ends' is missing");
  const ValueId first = n.make_integers(std::move(*starts));
  const ValueId last = n.make_integers(std::move(*ends));
  n.emit(ir::Slice{}, {x, first, last, axes ? n.make_integers(std::move(*axes)) : ir::kNoValue});
}

/// Gather. Rows of an f16 or bf16 table are gathered before they are widened to f32.
void convert_gather(NodeContext& n) {
  const ValueId data = n.in(0), indices = n.in(1);
  const auto axis = n.axis("axis", 0, n.rank(data));
  if (n.failed()) return;
  if (const auto* stack = n.stack(data); stack && axis == 0 && n.rank(indices) == 0) {
    const auto count = static_cast<std::int64_t>(stack->size());
    const auto index = n.known_integers(1);
    if (index && (*index)[0] >= -count && (*index)[0] < count)
      return n.bind(0, (*stack)[static_cast<std::size_t>(((*index)[0] + count) % count)]);
  }
  n.check_indices(1, {n.type(data).dims[static_cast<std::size_t>(axis)]});
  const auto narrow = n.narrow(data);
  if (!narrow) {
    n.emit(ir::Gather{axis}, {data, indices});
    if (auto table = n.constant(0); table && axis == 0 && table->dims().size() == 2)
      n.note_gathered(0, std::move(table), indices);
    return;
  }
  n.emit(ir::Cast{ElementType::kF32}, {n.make(ir::Gather{axis}, {*narrow, indices})});
}

/// Tile. Until version 5 it repeats one axis: operands 1 and 2 are the number and the axis.
void convert_tile(NodeContext& n) {
  const ValueId x = n.in(0);
  if (n.opset() >= 6) return n.emit(ir::Tile{}, {x, n.in(1)});
  const auto count = n.known_number(1), axis = n.known_number(2);
  if (n.failed()) return;
  if (!count || !axis) return n.unsupported("a repetition that is not constant is not supported");
  std::vector<std::int64_t> repeats(static_cast<std::size_t>(n.rank(x)), 1);
  if (!(*axis >= 0 && *axis < static_cast<double>(repeats.size()) && *count >= 0 &&
        *count <= INT32_MAX))
    return n.bad("repeats a dim that its operand does not have, or too often");
  repeats[static_cast<std::size_t>(*axis)] = static_cast<std::int64_t>(*count);
  n.emit(ir::Tile{}, {x, n.make_integers(std::move(repeats))});
}

/// Trilu. k is operand 1.
void convert_trilu(NodeContext& n) {
  n.emit(ir::Trilu{n.integer("upper", 1) != 0}, {n.in(0), n.optional_in(1)});
}

/// EyeLike: 1 where the column is the row plus k, in the shape of x.
void convert_eye_like(NodeContext& n) {
  const ValueId x = n.in(0);
  const auto to = n.integer("dtype", 0), k = n.integer("k", 0);
  if (n.failed()) return;
  if (n.rank(x) != 2) return n.bad("x is not a matrix");
  const ValueId rows = positions_along(n, x, 0), columns = positions(n, x, 1);
  const ValueId shifted = with_scalar(n, ir::BinaryKind::kAdd, rows, static_cast<double>(k));
  const ValueId diagonal = binary(n, ir::BinaryKind::kEqual, columns, shifted);
  if (n.failed()) return;
  auto type = to == 0 ? std::optional(n.type(x).element)
                      : element_type(static_cast<int>(std::clamp<std::int64_t>(to, -1, 1000)));
  if (!type) return n.unsupported("elements of the type of attribute 'dtype' are not supported");
  if (*type == ElementType::kF16 || *type == ElementType::kBF16) type = ElementType::kF32;
  n.bind(0, n.cast(diagonal, *type));
}

/// The shape of sizes that are i64[1] each.
ValueId joined_sizes(NodeContext& n, std::vector<ValueId> sizes) {
  return n.make(ir::Concat{0}, std::move(sizes));
}

/// Maximum 'blocksize', whose square is far from overflow.
constexpr std::int64_t kMaxBlockSize = 1024;

/// Reads attribute 'blocksize' of DepthToSpace and SpaceToDepth, whose operand x is [N, C, H, W].
std::optional<std::int64_t> block_size(NodeContext& n, ValueId x) {
  const auto block = n.integer("blocksize", 0);
  if (n.failed()) return std::nullopt;
  if (block >= 1 && block <= kMaxBlockSize && n.rank(x) == 4) return block;
  n.bad(n.rank(x) == 4 ? "attribute 'blocksize' is out of range" : "x does not have 4 dims");
  return std::nullopt;
}

/// DepthToSpace: [N, b b C, H, W] -> [N, C, H b, W b]. With mode CRD, the channels are [C, b, b].
void convert_depth_to_space(NodeContext& n) {
  const ValueId x = n.in(0);
  const std::string mode = n.text("mode", "DCR");
  const auto block = block_size(n, x);
  const auto channels = block ? known_dim(n, x, 1) : std::nullopt;
  if (n.failed()) return;
  if (mode != "DCR" && mode != "CRD") return n.bad("attribute 'mode' is neither 'DCR' nor 'CRD'");
  if (!channels || *channels % (*block * *block) != 0)
    return n.bad("the channels are not a multiple of the square of 'blocksize'");
  const bool last = mode == "CRD";  // whether the block's dims follow the channels
  const ValueId b = n.make_integers({*block}), c = n.make_integers({*channels / (*block * *block)});
  const ValueId batch = dim_of(n, x, 0), height = dim_of(n, x, 2), width = dim_of(n, x, 3);
  const ValueId parts = n.make(
      ir::Reshape{}, {x, joined_sizes(n, last ? std::vector{batch, c, b, b, height, width}
                                              : std::vector{batch, b, b, c, height, width})});
  const ValueId y = n.make(ir::Transpose{last ? std::vector<std::int64_t>{0, 1, 4, 2, 5, 3}
                                              : std::vector<std::int64_t>{0, 3, 4, 1, 5, 2}},
                           {parts});
  n.emit(ir::Reshape{}, {y, joined_sizes(n, {batch, c, binary(n, ir::BinaryKind::kMul, height, b),
                                             binary(n, ir::BinaryKind::kMul, width, b)})});
}

/// SpaceToDepth: [N, C, H b, W b] -> [N, b b C, H, W].
void convert_space_to_depth(NodeContext& n) {
  const ValueId x = n.in(0);
  const auto block = block_size(n, x);
  if (!block) return;
  const auto height = known_dim(n, x, 2), width = known_dim(n, x, 3);
  if ((height && *height % *block != 0) || (width && *width % *block != 0))
    return n.bad("height or width is not a multiple of 'blocksize'");
  const ValueId b = n.make_integers({*block}), square = n.make_integers({*block * *block});
  const ValueId batch = dim_of(n, x, 0), channels = dim_of(n, x, 1);
  const ValueId rows = binary(n, ir::BinaryKind::kDiv, dim_of(n, x, 2), b);
  const ValueId columns = binary(n, ir::BinaryKind::kDiv, dim_of(n, x, 3), b);
  const ValueId parts =
      n.make(ir::Reshape{}, {x, joined_sizes(n, {batch, channels, rows, b, columns, b})});
  const ValueId y = n.make(ir::Transpose{{0, 3, 5, 1, 2, 4}}, {parts});
  n.emit(ir::Reshape{},
         {y, joined_sizes(
                 n, {batch, binary(n, ir::BinaryKind::kMul, square, channels), rows, columns})});
}

}  // namespace

std::vector<OperatorRule> movement_rules() {
  return {
      onnx_rule("Identity", 1, 1, convert_identity),
      onnx_rule("Dropout", 1, {1, 3}, convert_dropout, {"is_test", "ratio", "seed"}),
      onnx_rule("Cast", 1, 1, convert_cast, {"to", "saturate", "round_mode"}),
      onnx_rule("CastLike", 15, 2, convert_cast_like, {"saturate", "round_mode"}),
      onnx_rule("Transpose", 1, 1, convert_transpose, {"perm"}),
      onnx_rule("Concat", 1, {1, kAnyCount}, convert_concat, {"axis"}),
      onnx_rule("Split", 1, {1, 2}, convert_split, {"axis", "split", "num_outputs"}),
      onnx_rule("Slice", 1, {1, 5}, convert_slice, {"starts", "ends", "axes"}),
      onnx_rule("Gather", 1, 2, convert_gather, {"axis"}),
      onnx_rule("Tile", {1, 5}, 3, convert_tile),
      onnx_rule("Tile", 6, 2, convert_tile),
      onnx_rule("Trilu", 14, {1, 2}, convert_trilu, {"upper"}),
      onnx_rule("EyeLike", 9, 1, convert_eye_like, {"dtype", "k"}),
      onnx_rule("DepthToSpace", {1, 10}, 1, convert_depth_to_space, {"blocksize"}),
      onnx_rule("DepthToSpace", 11, 1, convert_depth_to_space, {"blocksize", "mode"}),
      onnx_rule("SpaceToDepth", 1, 1, convert_space_to_depth, {"blocksize"}),
  };
}

}  // namespace llmc::importer

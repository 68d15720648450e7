// Operators that make, read or change shapes, and constants.

#include <algorithm>
#include <cmath>

#include "compiler/onnx/operators.h"
#include "compiler/onnx/tensor.h"
#include "compiler/support/checked_math.h"

namespace llmc::importer {
namespace {

using ir::ElementType;
using ir::ValueId;

/// Reshape until version 4: the shape is an attribute.
void convert_old_reshape(NodeContext& n) {
  auto shape = n.integers("shape");
  if (n.failed()) return;
  if (!shape) return n.bad("attribute 'shape' is missing");
  n.emit(ir::Reshape{}, {n.in(0), n.make_integers(std::move(*shape))});
}

void convert_reshape(NodeContext& n) {
  n.emit(ir::Reshape{n.integer("allowzero", 0) != 0}, {n.in(0), n.in(1)});
}

/// Returns the product of dims [begin, end); nullopt if one is symbolic.
std::optional<std::int64_t> known_product(const ir::TensorType& type, std::int64_t begin,
                                          std::int64_t end) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = begin; i < end; ++i) {
    const auto size = type.dims[static_cast<std::size_t>(i)].constant();
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return checked_product(sizes);
}

/// Returns the product of dims [begin, end), computed at run time, as i64[1].
ValueId product_of_dims(NodeContext& n, ValueId x, std::int64_t begin, std::int64_t end) {
  const ValueId dims = n.make(ir::Shape{begin, end}, {x});
  return n.make(ir::Reduce{ir::ReduceKind::kProd, {0}, true}, {dims});
}

/// Flatten to two dims, as a Reshape.
void convert_flatten(NodeContext& n) {
  const ValueId x = n.in(0);
  const std::int64_t rank = n.rank(x);
  std::int64_t axis = n.integer("axis", 1);
  if (n.failed()) return;
  if (axis < -rank || axis > rank) return n.bad("axis is outside the tensor's rank");
  if (axis < 0) axis += rank;
  const auto rows = known_product(n.type(x), 0, axis);
  const auto columns = known_product(n.type(x), axis, rank);
  if (columns && *columns > 0) return n.emit(ir::Reshape{}, {x, n.make_integers({-1, *columns})});
  if (rows && *rows > 0) return n.emit(ir::Reshape{}, {x, n.make_integers({*rows, -1})});
  const ValueId shape =
      n.make(ir::Concat{0}, {product_of_dims(n, x, 0, axis), product_of_dims(n, x, axis, rank)});
  n.emit(ir::Reshape{true}, {x, shape});
}

/// Squeeze. The axes are an attribute until version 12, operand 1 later. Without axes, all dims of
/// 1 are removed.
void convert_squeeze(NodeContext& n) {
  const ValueId x = n.in(0);
  auto axes = n.axes("axes", 13, 1, n.rank(x));
  if (n.failed()) return;
  if (!axes) {
    axes.emplace();
    const auto& dims = n.type(x).dims;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (!dims[i].is_constant())
        return n.unsupported(
            "squeezing a tensor with unknown dims without axes is not "
            "supported");
      if (dims[i].constant() == 1) axes->push_back(static_cast<std::int64_t>(i));
    }
  }
  n.emit(ir::Squeeze{std::move(*axes)}, {x});
}

/// Unsqueeze. The axes refer to the result, whose rank is the rank of x plus the number of axes.
void convert_unsqueeze(NodeContext& n) {
  const ValueId x = n.in(0);
  std::optional<std::vector<std::int64_t>> given =
      n.opset() < 13 ? n.integers("axes") : n.known_integers(1);
  if (n.failed()) return;
  if (!given && n.opset() >= 13 && n.has(1))
    return n.unsupported("axes that are not constant are not supported");
  if (!given) return n.bad("axes are missing");
  const std::int64_t rank = n.rank(x) + static_cast<std::int64_t>(given->size());
  if (rank > kMaxRank)
    return n.bad("the result has rank " + std::to_string(rank) + ", more than the maximum of " +
                 std::to_string(kMaxRank));
  auto axes = n.axes("axes", 13, 1, rank);
  if (n.failed()) return;
  n.emit(ir::Unsqueeze{std::move(*axes)}, {x});
}

void convert_expand(NodeContext& n) {
  n.emit(ir::Expand{}, {n.in(0), n.in(1)});
}

/// Shape. start and end exist from version 15 on, and are clamped to the rank.
void convert_shape(NodeContext& n) {
  const ValueId x = n.in(0);
  const std::int64_t rank = n.rank(x);
  std::int64_t begin = n.integer("start", 0), end = n.integer("end", rank);
  if (n.failed()) return;
  if (begin < 0) begin = begin < -rank ? 0 : begin + rank;
  if (end < 0) end = end < -rank ? 0 : end + rank;
  begin = std::min(begin, rank);
  end = std::clamp(end, begin, rank);
  n.emit(ir::Shape{begin, end}, {x});
}

/// Size: the number of elements, which is the product of the dims.
void convert_size(NodeContext& n) {
  const ValueId shape = n.make(ir::Shape{0, n.rank(n.in(0))}, {n.in(0)});
  n.emit(ir::Reduce{ir::ReduceKind::kProd, {0}, false}, {shape});
}

void convert_constant(NodeContext& n) {
  ValueId made;
  if (n.has_attribute("value")) {
    const auto data = n.tensor("value");
    if (!n.failed()) made = n.make_constant(data);
  } else if (n.has_attribute("value_int")) {
    made = n.make_constant(ir::make_i64({}, {n.integer("value_int", 0)}));
  } else if (n.has_attribute("value_float")) {
    made = n.make_constant(ir::make_f32({}, {n.number("value_float", 0)}));
  } else if (const auto ints = n.integers("value_ints")) {
    made = n.make_integers(*ints);
  } else if (const auto floats = n.numbers("value_floats")) {
    made = n.make_constant(ir::make_f32({static_cast<std::int64_t>(floats->size())}, *floats));
  } else {
    return n.bad("attribute 'value' is missing");
  }
  n.bind(0, made);
}

void convert_constant_of_shape(NodeContext& n) {
  ir::ConstantPtr value = n.has_attribute("value") ? n.tensor("value") : ir::make_f32({1}, {0});
  const ValueId shape = n.in(0);
  if (n.failed()) return;
  if (value->element_count() != 1) return n.bad("attribute 'value' must have one element");
  const ElementType element = value->element();
  if (element == ElementType::kF16 || element == ElementType::kBF16)
    value = ir::make_splat(ElementType::kF32, {1}, ir::to_doubles(*value)[0]);
  n.emit(ir::ConstantOfShape{std::move(value)}, {shape});
}

/// Maximum number of elements of a Range.
constexpr double kMaxRange = 0x1p40;

void convert_range(NodeContext& n) {
  const auto start = n.known_number(0), limit = n.known_number(1), step = n.known_number(2);
  for (const auto& bound : {start, limit, step})
    if (bound && !std::isfinite(*bound)) return n.bad("start, limit and delta must be finite");
  if (step && *step == 0) return n.bad("the step is 0");
  if (start && limit && step && !((*limit - *start) / *step <= kMaxRange))
    return n.bad("the range has more elements than can be addressed");
  const std::vector<ValueId> bounds{n.in(0), n.in(1), n.in(2)};
  if (n.failed()) return;
  // Type inference cannot derive the size of a range of floats from symbolic sizes, so evaluate it.
  if (ir::is_float(n.type(bounds[0]).element))
    return n.bind(0, n.computed(n.make(ir::Range{}, bounds)));
  n.emit(ir::Range{}, bounds);
}

}  // namespace

std::vector<OperatorRule> shape_rules() {
  return {
      onnx_rule("Reshape", {1, 4}, 1, convert_old_reshape, {"shape"}),
      onnx_rule("Reshape", 5, 2, convert_reshape, {"allowzero"}),
      onnx_rule("Flatten", 1, 1, convert_flatten, {"axis"}),
      onnx_rule("Squeeze", 1, {1, 2}, convert_squeeze, {"axes"}),
      onnx_rule("Unsqueeze", 1, {1, 2}, convert_unsqueeze, {"axes"}),
      onnx_rule("Expand", 8, 2, convert_expand),
      onnx_rule("Shape", 1, 1, convert_shape, {"start", "end"}),
      onnx_rule("Size", 1, 1, convert_size),
      onnx_rule("Constant", 1, 0, convert_constant,
                {"value", "value_int", "value_ints", "value_float", "value_floats"}),
      onnx_rule("ConstantOfShape", 9, 1, convert_constant_of_shape, {"value"}),
      onnx_rule("Range", 11, 3, convert_range),
  };
}

}  // namespace llmc::importer

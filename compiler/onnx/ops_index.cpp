// Operators that select, store, sort or accumulate elements by index.

#include <sstream>

#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::ElementType;
using ir::ScatterReduction;
using ir::ValueId;

void convert_gather_elements(NodeContext& n) {
  const ValueId data = n.in(0);
  const auto axis = n.axis("axis", 0, n.rank(data));
  if (n.failed()) return;
  n.check_indices(1, {n.type(data).dims[static_cast<std::size_t>(axis)]});
  n.emit(ir::GatherElements{axis}, {data, n.in(1)});
}

/// Checks operand 1: tuples of indices into the dims of operand 0, starting at dim `first`.
void check_tuples(NodeContext& n, std::int64_t first) {
  const ValueId data = n.in(0), indices = n.in(1);
  if (n.failed() || n.rank(indices) == 0) return;
  const auto length = known_dim(n, indices, n.rank(indices) - 1);
  if (!length || *length < 1 || first < 0 || *length > n.rank(data) - first) return;
  const auto begin = n.type(data).dims.begin() + first;
  n.check_indices(1, {begin, begin + *length});
}

void convert_gather_nd(NodeContext& n) {
  const std::int64_t batch = n.integer("batch_dims", 0);
  n.emit(ir::GatherNd{batch}, {n.in(0), n.in(1)});
  check_tuples(n, batch);
}

ScatterReduction reduction(NodeContext& n) {
  const std::string name = n.text("reduction", "none");
  if (name == "none") return ScatterReduction::kNone;
  if (name == "add") return ScatterReduction::kAdd;
  if (name == "mul") return ScatterReduction::kMul;
  if (name == "min") return ScatterReduction::kMin;
  if (name == "max") return ScatterReduction::kMax;
  n.bad("attribute 'reduction' is not one of none, add, mul, min, max");
  return ScatterReduction::kNone;
}

void convert_scatter_elements(NodeContext& n) {
  const ValueId data = n.in(0);
  const auto axis = n.axis("axis", 0, n.rank(data));
  if (n.failed()) return;
  n.check_indices(1, {n.type(data).dims[static_cast<std::size_t>(axis)]});
  n.emit(ir::ScatterElements{axis, reduction(n)}, {data, n.in(1), n.in(2)});
}

void convert_scatter_nd(NodeContext& n) {
  n.emit(ir::ScatterNd{reduction(n)}, {n.in(0), n.in(1), n.in(2)});
  check_tuples(n, 0);
}

/// ONNX TensorScatter-24: writes `update` to the cache along `axis`, starting at write_indices[b]
/// for sequence b (dim 0). In circular mode, positions wrap around.
void convert_tensor_scatter(NodeContext& n) {
  const ValueId cache = n.in(0), update = n.in(1);
  const std::int64_t axis = n.axis("axis", -2, n.rank(cache));
  const std::string mode = n.text("mode", "linear");
  if (n.failed()) return;
  if (axis == 0) return n.bad("the axis is dim 0, the batch");
  if (n.rank(update) != n.rank(cache)) return n.bad("cache and update differ in rank");
  if (mode != "linear" && mode != "circular")
    return n.bad("attribute 'mode' is neither 'linear' nor 'circular'");
  ValueId at = positions_along(n, update, axis);
  if (n.has(2)) {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(n.rank(cache)), 1);
    shape[0] = -1;
    const ValueId start = n.cast(n.in(2), ElementType::kI64);
    at = binary(n, BinaryKind::kAdd, at, reshaped(n, start, std::move(shape)));
  }
  if (mode == "circular") at = binary(n, BinaryKind::kMod, at, dim_of(n, cache, axis));
  const ValueId indices = n.make(ir::Expand{}, {at, shape_of(n, update)});
  n.emit(ir::ScatterElements{axis}, {cache, indices, update});
}

/// Returns the pads of some axes as pads of all axes.
ValueId pads_of_all_axes(NodeContext& n, ValueId pads, std::int64_t rank) {
  auto axes = n.known_integers(3);
  if (!axes) return n.unsupported("axes that are not constant are not supported"), ir::kNoValue;
  const auto count = static_cast<std::int64_t>(axes->size());
  std::vector<std::int64_t> places(axes->size() * 2);
  for (std::size_t i = 0; i < axes->size(); ++i) {
    std::int64_t axis = (*axes)[i];
    if (axis < -rank || axis >= rank) return n.bad("an axis is outside the tensor"), ir::kNoValue;
    if (axis < 0) axis += rank;
    places[i] = axis;
    places[i + axes->size()] = axis + rank;
  }
  if (const auto known = n.known_integers(1)) {
    if (static_cast<std::int64_t>(known->size()) != 2 * count)
      return n.bad("the number of pads is not twice that of the axes"), ir::kNoValue;
    std::vector<std::int64_t> all(static_cast<std::size_t>(2 * rank), 0);
    for (std::size_t i = 0; i < places.size(); ++i)
      all[static_cast<std::size_t>(places[i])] = (*known)[i];
    return n.make_integers(std::move(all));
  }
  const ValueId zeros = n.make_constant(ir::make_splat(ElementType::kI64, {2 * rank}, 0));
  return n.make(ir::ScatterElements{0},
                {zeros, n.make_integers(std::move(places)), n.cast(pads, ElementType::kI64)});
}

/// Pad. Pads and value are attributes until version 10. Axes exist from version 18 on, mode wrap
/// from 19 on.
void convert_pad(NodeContext& n) {
  const ValueId x = n.in(0);
  const std::string mode = n.text("mode", "constant");
  ir::Pad op;
  if (mode == "reflect")
    op.mode = ir::PadMode::kReflect;
  else if (mode == "edge")
    op.mode = ir::PadMode::kEdge;
  else if (mode == "wrap")
    op.mode = ir::PadMode::kWrap;
  else if (mode != "constant")
    return n.bad("attribute 'mode' is not a supported padding mode");
  ValueId pads, value;
  if (n.opset() < 11) {
    auto given = n.integers(n.opset() < 2 ? "paddings" : "pads");
    const float fill = n.number("value", 0);
    if (n.failed()) return;
    if (!given) return n.bad("the pads are missing");
    pads = n.make_integers(std::move(*given));
    value = n.make_scalar(fill, x);
  } else {
    pads = n.has(3) ? pads_of_all_axes(n, n.in(1), n.rank(x)) : n.in(1);
    value = n.optional_in(2);
  }
  if (op.mode != ir::PadMode::kConstant) value = ir::kNoValue;
  // PyTorch exports nodes that convert its order of the pads to ONNX's, so evaluate them.
  n.emit(op, {x, n.computed(pads), value});
}

/// TopK. k is an attribute until version 9; `largest` exists from 11 on. The results are always
/// sorted.
void convert_top_k(NodeContext& n) {
  const ValueId x = n.in(0);
  const std::int64_t axis = n.axis("axis", -1, n.rank(x));
  const bool largest = n.integer("largest", 1) != 0;
  n.ignore("sorted");
  ValueId k;
  if (n.opset() < 10) {
    if (!n.has_attribute("k")) return n.bad("attribute 'k' is missing");
    k = n.make_integers({n.integer("k", 0)});
  } else {
    k = n.in(1);
  }
  n.emit(ir::TopK{axis, largest}, {x, k});
}

void convert_cum_sum(NodeContext& n) {
  const ValueId x = n.in(0);
  const auto axis = n.known_integers(1);
  if (n.failed()) return;
  if (!axis || axis->size() != 1)
    return n.unsupported("an axis that is not constant is not supported");
  n.emit(ir::CumSum{axis->front(), n.integer("exclusive", 0) != 0, n.integer("reverse", 0) != 0},
         {x});
}

template <bool kMinimum>
void convert_arg(NodeContext& n) {
  const ValueId x = n.in(0);
  ir::ArgMax op;
  op.axis = n.axis("axis", 0, n.rank(x));
  op.keep_dims = n.integer("keepdims", 1) != 0;
  op.minimum = kMinimum;
  op.last = n.integer("select_last_index", 0) != 0;
  n.emit(op, {x});
}

/// Returns, for example, "-4", "0.5" or "nan".
std::string number_text(double number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

void convert_non_zero(NodeContext& n) {
  const ValueId x = n.in(0);
  if (n.failed()) return;
  if (n.rank(x) == 0) return n.unsupported("its operand is a scalar");
  n.emit(ir::NonZero{}, {x});
}

/// OneHot: values[1] where the position along the new dim `axis` equals the index, values[0]
/// elsewhere. Negative indices count from the end. For an index out of range, all elements are
/// values[0].
void convert_one_hot(NodeContext& n) {
  if (const auto known = n.known_number(1); known && !(*known >= 1))
    return n.bad("the depth " + number_text(*known) + " is not positive");
  const ValueId indices = n.cast(n.in(0), ElementType::kI64);
  const ValueId depth = reshaped(n, n.cast(n.in(1), ElementType::kI64), {1});
  const ValueId values = n.in(2);
  if (n.failed()) return;
  if (n.rank(values) != 1 || !ir::compatible(n.type(values).dims[0], ir::Dim(2)))
    return n.bad("its values " + ir::to_string(n.type(values)) + " are not two numbers");
  const std::int64_t rank = n.rank(indices) + 1, axis = n.axis("axis", -1, rank);
  const ValueId below = with_scalar(n, BinaryKind::kLess, indices, 0);
  const ValueId counted =
      n.make(ir::Where{}, {below, binary(n, BinaryKind::kAdd, indices, depth), indices});
  const ValueId range = n.make(ir::Range{}, {n.make_integers({0}), depth, n.make_integers({1})});
  if (n.failed()) return;
  std::vector<std::int64_t> shape(static_cast<std::size_t>(rank - axis), 1);
  shape[0] = -1;
  // A scalar index is broadcast along the new dim, without an Unsqueeze.
  const ValueId at = n.rank(indices) == 0 ? counted : unsqueezed(n, counted, {axis});
  const ValueId hit = binary(n, BinaryKind::kEqual, reshaped(n, range, std::move(shape)), at);
  const auto value = [&](std::int64_t i) {
    return n.make(ir::Gather{0}, {values, n.make_constant(ir::make_i64({}, {i}))});
  };
  n.emit(ir::Where{}, {hit, value(1), value(0)});
}

}  // namespace

std::vector<OperatorRule> index_rules() {
  const std::vector<std::string_view> arg{"axis", "keepdims", "select_last_index"};
  const std::vector<std::string_view> top_k{"axis", "k", "largest", "sorted"};
  return {
      onnx_rule("GatherElements", 11, 2, convert_gather_elements, {"axis"}),
      onnx_rule("GatherND", 11, 2, convert_gather_nd, {"batch_dims"}),
      onnx_rule("Scatter", {9, 10}, 3, convert_scatter_elements, {"axis"}),
      onnx_rule("ScatterElements", 11, 3, convert_scatter_elements, {"axis", "reduction"}),
      onnx_rule("ScatterND", 11, 3, convert_scatter_nd, {"reduction"}),
      onnx_rule("TensorScatter", 24, {2, 3}, convert_tensor_scatter, {"axis", "mode"}),
      onnx_rule("Pad", 1, {1, 4}, convert_pad, {"mode", "pads", "paddings", "value"}),
      onnx_rule("TopK", 1, {1, 2}, convert_top_k, top_k),
      onnx_rule("CumSum", 11, 2, convert_cum_sum, {"exclusive", "reverse"}),
      onnx_rule("ArgMax", 1, 1, convert_arg<false>, arg),
      onnx_rule("ArgMin", 1, 1, convert_arg<true>, arg),
      onnx_rule("NonZero", 9, 1, convert_non_zero),
      onnx_rule("OneHot", 9, 3, convert_one_hot, {"axis"}),
  };
}

}  // namespace llmc::importer

// Reductions, and normalizations along one dim.

#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::ElementType;
using ir::ReduceKind;
using ir::UnaryKind;
using ir::ValueId;

/// Returns the reduced axes; nullopt if the operator returns its operand unchanged, or after an
/// error.
std::optional<std::vector<std::int64_t>> reduced_axes(NodeContext& n, ValueId x,
                                                      std::int64_t axes_input_since) {
  auto axes = n.axes("axes", axes_input_since, 1, n.rank(x));
  n.ignore("keepdims");  // has no effect if no axis is reduced
  const bool empty_is_none =
      n.opset() >= axes_input_since && n.integer("noop_with_empty_axes", 0) != 0;
  if (n.failed()) return std::nullopt;
  if (!axes) axes.emplace();
  if (axes->empty() && empty_is_none) return std::nullopt;
  return axes;
}

/// Appends the Reduce and returns its result, or returns x if no axis is reduced.
ValueId reduced(NodeContext& n, ReduceKind kind, ValueId x,
                const std::optional<std::vector<std::int64_t>>& axes) {
  if (n.failed() || !axes) return x;
  return reduce(n, kind, x, *axes, n.integer("keepdims", 1) != 0);
}

/// Converts a reduction. The axes are an operand from version 13 on for ReduceSum, from 18 on for
/// others.
template <ReduceKind kKind, std::int64_t kAxesInputSince>
void convert_reduce(NodeContext& n) {
  ValueId x = n.in(0);
  const auto axes = reduced_axes(n, x, kAxesInputSince);
  if (n.failed()) return;
  if (!axes) return n.bind(0, x);
  if (n.type(x).element ==
      ElementType::kBool) {  // ReduceMax and ReduceMin of bools exist from version 20 on
    x = reduced(n, kKind, n.cast(x, ElementType::kU8), axes);
    return n.emit(ir::Cast{ElementType::kBool}, {x});
  }
  n.emit(ir::Reduce{kKind, *axes, n.integer("keepdims", 1) != 0}, {x});
}

/// Returns x as a float value: integers become f64, for roots and logarithms.
ValueId as_float(NodeContext& n, ValueId x) {
  if (n.failed() || ir::is_float(n.type(x).element)) return x;
  return n.cast(x, ElementType::kF64);
}

void bind_as(NodeContext& n, ValueId value, ValueId like) {
  if (!n.failed()) n.bind(0, n.cast(value, n.type(like).element));
}

void convert_reduce_l1(NodeContext& n) {
  const ValueId x = n.in(0);
  const auto axes = reduced_axes(n, x, 18);
  n.bind(0, reduced(n, ReduceKind::kSum, unary(n, UnaryKind::kAbs, x), axes));
}

void convert_reduce_sum_square(NodeContext& n) {
  const ValueId x = n.in(0);
  const auto axes = reduced_axes(n, x, 18);
  n.bind(0, reduced(n, ReduceKind::kSum, binary(n, BinaryKind::kMul, x, x), axes));
}

void convert_reduce_l2(NodeContext& n) {
  const ValueId x = n.in(0);
  const auto axes = reduced_axes(n, x, 18);
  const ValueId f = as_float(n, x);
  const ValueId sum = reduced(n, ReduceKind::kSum, binary(n, BinaryKind::kMul, f, f), axes);
  bind_as(n, unary(n, UnaryKind::kSqrt, sum), x);
}

void convert_reduce_log_sum(NodeContext& n) {
  const ValueId x = n.in(0);
  const auto axes = reduced_axes(n, x, 18);
  bind_as(n, unary(n, UnaryKind::kLog, reduced(n, ReduceKind::kSum, as_float(n, x), axes)), x);
}

/// Computes m + log Σ exp(x - m) with m = max(x), so that exp does not overflow. Replaces an
/// infinite m by 0, because inf - inf is NaN.
void convert_reduce_log_sum_exp(NodeContext& n) {
  const ValueId given = n.in(0);
  const auto axes = reduced_axes(n, given, 18);
  const ValueId x = as_float(n, given);
  if (n.failed()) return;
  if (!axes) return n.bind(0, given);
  const ValueId largest = reduce(n, ReduceKind::kMax, x, *axes);
  const ValueId infinite = unary(n, UnaryKind::kIsInf, largest);
  const ValueId m = n.make(ir::Where{}, {infinite, n.make_scalar(0, x), largest});
  const ValueId powers = unary(n, UnaryKind::kExp, binary(n, BinaryKind::kSub, x, m));
  const ValueId sum = unary(n, UnaryKind::kLog, reduce(n, ReduceKind::kSum, powers, *axes));
  ValueId result = binary(n, BinaryKind::kAdd, m, sum);
  if (n.integer("keepdims", 1) == 0) {
    auto squeezed = *axes;
    if (squeezed.empty()) squeezed = axis_range(0, n.rank(x));
    result = n.make(ir::Squeeze{std::move(squeezed)}, {result});
  }
  bind_as(n, result, given);
}

/// Converts an operator f(x, axis) along one dim; until version 12 it applies to all dims from
/// `axis` on.
template <ValueId (*kFunction)(NodeContext&, ValueId, std::int64_t)>
void convert_along_axis(NodeContext& n) {
  const ValueId x = n.in(0);
  const std::int64_t rank = n.rank(x);
  const std::int64_t axis = n.axis("axis", n.opset() < 13 ? 1 : -1, rank);
  if (n.failed()) return;
  if (n.opset() >= 13 || axis == rank - 1) return n.bind(0, kFunction(n, x, axis));
  const ValueId rows = kFunction(n, flattened(n, x, axis), 1);
  n.emit(ir::Reshape{true}, {rows, shape_of(n, x)});
}

ValueId softmax(NodeContext& n, ValueId x, std::int64_t axis) {
  return n.make(ir::Softmax{axis}, {x});
}

/// x - m - log Σ exp(x - m).
ValueId log_softmax(NodeContext& n, ValueId x, std::int64_t axis) {
  const ValueId shifted = binary(n, BinaryKind::kSub, x, reduce(n, ReduceKind::kMax, x, {axis}));
  const ValueId sum = reduce(n, ReduceKind::kSum, unary(n, UnaryKind::kExp, shifted), {axis});
  return binary(n, BinaryKind::kSub, shifted, unary(n, UnaryKind::kLog, sum));
}

/// 1 at the first maximum along the axis, 0 elsewhere.
ValueId hardmax(NodeContext& n, ValueId x, std::int64_t axis) {
  const ValueId best = n.make(ir::ArgMax{axis, true}, {x});
  const ValueId hit = binary(n, BinaryKind::kEqual, positions_along(n, x, axis), best);
  return n.make(ir::Where{}, {hit, n.make_scalar(1, x), n.make_scalar(0, x)});
}

/// x / |x| along one axis, where |x| is the sum of absolute values or the Euclidean norm; 0 if |x|
/// is 0.
void convert_lp_normalization(NodeContext& n) {
  const ValueId x = n.in(0);
  const std::int64_t axis = n.axis("axis", -1, n.rank(x)), p = n.integer("p", 2);
  if (n.failed()) return;
  if (p != 1 && p != 2) return n.bad("attribute 'p' is neither 1 nor 2");
  const ValueId powers = p == 1 ? unary(n, UnaryKind::kAbs, x) : binary(n, BinaryKind::kMul, x, x);
  ValueId norm = reduce(n, ReduceKind::kSum, powers, {axis});
  if (p == 2) norm = unary(n, UnaryKind::kSqrt, norm);
  const ValueId zero = n.make_scalar(0, x);
  const ValueId none = binary(n, BinaryKind::kEqual, norm, zero);
  n.emit(ir::Where{}, {none, zero, binary(n, BinaryKind::kDiv, x, norm)});
}

OperatorRule reduction(std::string_view name, Converter convert) {
  return onnx_rule(name, 1, {1, 2}, convert, {"axes", "keepdims", "noop_with_empty_axes"});
}

}  // namespace

std::vector<OperatorRule> reduce_rules() {
  return {
      reduction("ReduceSum", convert_reduce<ReduceKind::kSum, 13>),
      reduction("ReduceMean", convert_reduce<ReduceKind::kMean, 18>),
      reduction("ReduceMax", convert_reduce<ReduceKind::kMax, 18>),
      reduction("ReduceMin", convert_reduce<ReduceKind::kMin, 18>),
      reduction("ReduceProd", convert_reduce<ReduceKind::kProd, 18>),
      reduction("ReduceL1", convert_reduce_l1),
      reduction("ReduceL2", convert_reduce_l2),
      reduction("ReduceSumSquare", convert_reduce_sum_square),
      reduction("ReduceLogSum", convert_reduce_log_sum),
      reduction("ReduceLogSumExp", convert_reduce_log_sum_exp),
      onnx_rule("Softmax", 1, 1, convert_along_axis<softmax>, {"axis"}),
      onnx_rule("LogSoftmax", 1, 1, convert_along_axis<log_softmax>, {"axis"}),
      onnx_rule("LpNormalization", 1, 1, convert_lp_normalization, {"axis", "p"}),
      onnx_rule("Hardmax", 1, 1, convert_along_axis<hardmax>, {"axis"}),
  };
}

}  // namespace llmc::importer

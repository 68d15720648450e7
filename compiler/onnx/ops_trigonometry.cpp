// Trigonometric and hyperbolic functions and their inverses, in f64.

#include <numbers>

#include "compiler/onnx/f64_functions.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {

using enum ir::BinaryKind;
using ir::UnaryKind;
using ir::ValueId;

ValueId exp_minus_1(NodeContext& n, ValueId x) {
  const ValueId u = unary(n, UnaryKind::kExp, x), less = with_scalar(n, kSub, u, 1);
  const ValueId exact = binary(n, kDiv, binary(n, kMul, less, x), unary(n, UnaryKind::kLog, u));
  const ValueId near_zero = chosen(n, with_scalar(n, kEqual, u, 1), x, exact);
  const ValueId small = with_scalar(n, kLess, unary(n, UnaryKind::kAbs, x), 1);
  return chosen(n, small, near_zero, less);
}

ValueId log_of_1_plus(NodeContext& n, ValueId x) {
  const ValueId u = with_scalar(n, kAdd, x, 1), log = unary(n, UnaryKind::kLog, u);
  const ValueId exact = binary(n, kDiv, binary(n, kMul, log, x), with_scalar(n, kSub, u, 1));
  const ValueId near_zero = chosen(n, with_scalar(n, kEqual, u, 1), x, exact);
  return chosen(n, with_scalar(n, kGreater, x, 1), log, near_zero);
}

namespace {

ValueId square_root(NodeContext& n, ValueId x) {
  return unary(n, UnaryKind::kSqrt, x);
}
/// 1 + x.
ValueId one_plus(NodeContext& n, ValueId x) {
  return with_scalar(n, kAdd, x, 1);
}
/// 1 - x.
ValueId one_minus(NodeContext& n, ValueId x) {
  return one_plus(n, unary(n, UnaryKind::kNeg, x));
}

/// (exp(x) - exp(-x)) / 2.
ValueId sinh(NodeContext& n, ValueId x) {
  const ValueId up = exp_minus_1(n, x), down = exp_minus_1(n, unary(n, UnaryKind::kNeg, x));
  return with_scalar(n, kMul, binary(n, kSub, up, down), 0.5);
}

/// (exp(x) + exp(-x)) / 2.
ValueId cosh(NodeContext& n, ValueId x) {
  const ValueId up = unary(n, UnaryKind::kExp, x);
  const ValueId down = unary(n, UnaryKind::kExp, unary(n, UnaryKind::kNeg, x));
  return with_scalar(n, kMul, binary(n, kAdd, up, down), 0.5);
}

ValueId tan(NodeContext& n, ValueId x) {
  return binary(n, kDiv, unary(n, UnaryKind::kSin, x), unary(n, UnaryKind::kCos, x));
}

/// -y where x < 0, and y elsewhere: an odd function of x whose value at |x| is y.
ValueId with_sign_of(NodeContext& n, ValueId x, ValueId y) {
  return chosen(n, with_scalar(n, kLess, x, 0), unary(n, UnaryKind::kNeg, y), y);
}

/// atan(x) for |x| <= 1. Three times atan(x) = 2 atan(x / (1 + sqrt(1 + x²))), then the Taylor
/// series, whose first omitted term is below 1e-19 of the result for |x| <= tan(pi/32).
ValueId atan_up_to_1(NodeContext& n, ValueId x) {
  constexpr int kHalvings = 3, kTerms = 9;
  const auto square = [&](ValueId value) { return binary(n, kMul, value, value); };
  for (int i = 0; i < kHalvings; ++i)
    x = binary(n, kDiv, x, one_plus(n, square_root(n, one_plus(n, square(x)))));
  const ValueId t = square(x);
  ValueId sum = n.make_scalar(1.0 / (2 * kTerms - 1), x);
  for (int i = kTerms - 1; i-- > 0;)
    sum = binary(n, kSub, n.make_scalar(1.0 / (2 * i + 1), x), binary(n, kMul, t, sum));
  return with_scalar(n, kMul, binary(n, kMul, x, sum), 1 << kHalvings);
}

/// atan(|x|) = pi/2 - atan(1 / |x|) for |x| > 1.
ValueId atan(NodeContext& n, ValueId x) {
  const ValueId size = unary(n, UnaryKind::kAbs, x), above = with_scalar(n, kGreater, size, 1);
  const ValueId small =
      atan_up_to_1(n, chosen(n, above, unary(n, UnaryKind::kReciprocal, size), size));
  const ValueId large =
      with_scalar(n, kAdd, unary(n, UnaryKind::kNeg, small), std::numbers::pi / 2);
  return with_sign_of(n, x, chosen(n, above, large, small));
}

/// 2 atan(x / (1 + sqrt((1 - x) (1 + x)))).
ValueId asin(NodeContext& n, ValueId x) {
  const ValueId cosine = square_root(n, binary(n, kMul, one_minus(n, x), one_plus(n, x)));
  return with_scalar(n, kMul, atan_up_to_1(n, binary(n, kDiv, x, one_plus(n, cosine))), 2);
}

/// 4 atan(sqrt(1 - x) / (sqrt(1 + x) + sqrt(2))), without cancellation at 1.
ValueId acos(NodeContext& n, ValueId x) {
  const ValueId upper = square_root(n, one_minus(n, x));
  const ValueId lower = with_scalar(n, kAdd, square_root(n, one_plus(n, x)), std::numbers::sqrt2);
  return with_scalar(n, kMul, atan_up_to_1(n, binary(n, kDiv, upper, lower)), 4);
}

/// asinh(|x|) = log(1 + |x| + x² / (1 + sqrt(1 + x²))), above 1e8 log(2 |x|).
ValueId asinh(NodeContext& n, ValueId x) {
  const ValueId size = unary(n, UnaryKind::kAbs, x), square = binary(n, kMul, x, x);
  const ValueId rest = binary(n, kDiv, square, one_plus(n, square_root(n, one_plus(n, square))));
  const ValueId small = log_of_1_plus(n, binary(n, kAdd, size, rest));
  const ValueId large = with_scalar(n, kAdd, unary(n, UnaryKind::kLog, size), std::numbers::ln2);
  return with_sign_of(n, x, chosen(n, with_scalar(n, kGreater, size, 1e8), large, small));
}

/// log(1 + t + sqrt(t) sqrt(t + 2)) with t = x - 1.
ValueId acosh(NodeContext& n, ValueId x) {
  const ValueId t = with_scalar(n, kSub, x, 1);
  const ValueId root =
      binary(n, kMul, square_root(n, t), square_root(n, with_scalar(n, kAdd, t, 2)));
  return log_of_1_plus(n, binary(n, kAdd, t, root));
}

/// atanh(|x|) = log(1 + 2 |x| / (1 - |x|)) / 2.
ValueId atanh(NodeContext& n, ValueId x) {
  const ValueId size = unary(n, UnaryKind::kAbs, x);
  const ValueId ratio = binary(n, kDiv, with_scalar(n, kMul, size, 2), one_minus(n, size));
  return with_sign_of(n, x, with_scalar(n, kMul, log_of_1_plus(n, ratio), 0.5));
}

}  // namespace

std::vector<OperatorRule> trigonometry_rules() {
  return {
      onnx_rule("Tan", 7, 1, convert_in_f64<tan>),
      onnx_rule("Asin", 7, 1, convert_in_f64<asin>),
      onnx_rule("Acos", 7, 1, convert_in_f64<acos>),
      onnx_rule("Atan", 7, 1, convert_in_f64<atan>),
      onnx_rule("Sinh", 9, 1, convert_in_f64<sinh>),
      onnx_rule("Cosh", 9, 1, convert_in_f64<cosh>),
      onnx_rule("Asinh", 9, 1, convert_in_f64<asinh>),
      onnx_rule("Acosh", 9, 1, convert_in_f64<acosh>),
      onnx_rule("Atanh", 9, 1, convert_in_f64<atanh>),
  };
}

}  // namespace llmc::importer

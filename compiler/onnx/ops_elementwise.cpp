// Elementwise operators.

#include <cmath>

#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::UnaryKind;
using ir::ValueId;

template <UnaryKind kKind>
void convert_unary(NodeContext& n) {
  n.emit(ir::Unary{kKind}, {n.in(0)});
}

template <BinaryKind kKind>
void convert_binary(NodeContext& n) {
  n.emit(ir::Binary{kKind}, {n.in(0), n.in(1)});
}

/// Returns whether the dims `b` are those of `a` from `axis` on, as far as they are known. With
/// `broadcasts`, each may be 1 instead.
bool are_dims_from(const std::vector<ir::Dim>& a, const std::vector<ir::Dim>& b, std::size_t axis,
                   bool broadcasts) {
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (broadcasts && b[i] == ir::Dim(1)) continue;
    const auto size = a[axis + i].constant(), other = b[i].constant();
    if (size && other && *size != *other) return false;
  }
  return true;
}

/// A binary operator until version 6: operand 1 has the dims of operand 0 or, with 'broadcast',
/// those from 'axis' on, by default the last ones.
template <BinaryKind kKind>
void convert_old_binary(NodeContext& n) {
  const ValueId a = n.in(0);
  ValueId b = n.in(1);
  const std::int64_t extra = n.rank(a) - n.rank(b);
  const bool broadcasts = n.integer("broadcast", 0) != 0;
  const std::int64_t given = n.integer("axis", extra);
  if (n.failed()) return;
  const std::int64_t axis = broadcasts ? given : 0;
  if (extra >= 0 && (axis < 0 || axis > extra))
    return n.bad("axis " + std::to_string(axis) + " does not fit");
  if (extra < 0 || (!broadcasts && extra > 0) ||
      !are_dims_from(n.type(a).dims, n.type(b).dims, static_cast<std::size_t>(axis), broadcasts))
    return n.bad("the dims of " + ir::to_string(n.type(b)) + " are not those of " +
                     ir::to_string(n.type(a)) +
                     (broadcasts ? " from axis " + std::to_string(axis) + " on" : ""),
                 broadcasts ? "" : "until operator set 6 other dims need the attribute broadcast");
  if (axis != extra) b = unsqueezed(n, b, axis_range(n.rank(b), n.rank(a) - axis));
  n.emit(ir::Binary{kKind}, {a, b});
}

/// Sum, Min and Max of any number of operands, as a chain of binary operators.
template <BinaryKind kKind>
void convert_variadic(NodeContext& n) {
  const auto inputs = n.all_inputs();
  if (n.failed()) return;
  if (inputs.size() == 1) return n.bind(0, inputs[0]);
  ValueId result = inputs[0];
  for (std::size_t i = 1; i + 1 < inputs.size(); ++i)
    result = n.make(ir::Binary{kKind}, {result, inputs[i]});
  n.emit(ir::Binary{kKind}, {result, inputs.back()});
}

/// Pow. From version 12 on, base and exponent may have different types. An integer base with a
/// float exponent is computed in f64; otherwise the exponent is converted to the type of the base.
void convert_pow(NodeContext& n) {
  const ValueId base = n.in(0), exponent = n.in(1);
  if (n.failed()) return;
  const ir::ElementType element = n.type(base).element;
  if (ir::is_integer(element) && ir::is_float(n.type(exponent).element)) {
    const ValueId power = binary(n, BinaryKind::kPow, n.cast(base, ir::ElementType::kF64),
                                 n.cast(exponent, ir::ElementType::kF64));
    return n.emit(ir::Cast{element}, {power});
  }
  n.emit(ir::Binary{BinaryKind::kPow}, {base, n.cast(exponent, element)});
}

/// Clip = Min(Max(x, low), high). The bounds are attributes until version 10, operands later.
void convert_clip(NodeContext& n) {
  const ValueId x = n.in(0);
  ValueId low, high;
  if (n.opset() < 11) {
    if (n.has_attribute("min")) low = n.make_scalar(n.number("min", 0), x);
    if (n.has_attribute("max")) high = n.make_scalar(n.number("max", 0), x);
  } else {
    low = n.optional_in(1);
    high = n.optional_in(2);
  }
  if (n.failed()) return;
  if (!low.exists() && !high.exists()) return n.bind(0, x);
  if (!low.exists()) return n.emit(ir::Binary{BinaryKind::kMin}, {x, high});
  if (!high.exists()) return n.emit(ir::Binary{BinaryKind::kMax}, {x, low});
  n.emit(ir::Binary{BinaryKind::kMin}, {n.make(ir::Binary{BinaryKind::kMax}, {x, low}), high});
}

/// Mod: the remainder with the sign of the divisor, or of the dividend with fmod.
void convert_mod(NodeContext& n) {
  const ValueId a = n.in(0), b = n.in(1);
  if (n.failed()) return;
  const bool is_float = ir::is_float(n.type(a).element), fmod = n.integer("fmod", 0) != 0;
  if (is_float == fmod) return n.emit(ir::Binary{BinaryKind::kMod}, {a, b});
  if (fmod) {  // integers: a - b trunc(a / b)
    const ValueId whole = binary(n, BinaryKind::kMul, binary(n, BinaryKind::kDiv, a, b), b);
    return n.emit(ir::Binary{BinaryKind::kSub}, {a, whole});
  }
  // Floats: where the signs of remainder and divisor differ, add the divisor.
  const ValueId rest = binary(n, BinaryKind::kMod, a, b);
  const ValueId differ = binary(n, BinaryKind::kXor, with_scalar(n, BinaryKind::kLess, rest, 0),
                                with_scalar(n, BinaryKind::kLess, b, 0));
  const ValueId is_whole = with_scalar(n, BinaryKind::kEqual, rest, 0);
  const ValueId moved = n.make(ir::Where{}, {differ, binary(n, BinaryKind::kAdd, rest, b), rest});
  n.emit(ir::Where{}, {is_whole, rest, moved});
}

/// IsInf: whether x is an infinity with a requested sign.
void convert_is_inf(NodeContext& n) {
  const ValueId x = n.in(0);
  const bool negative = n.integer("detect_negative", 1) != 0;
  const bool positive = n.integer("detect_positive", 1) != 0;
  if (n.failed()) return;
  if (negative && positive) return n.emit(ir::Unary{UnaryKind::kIsInf}, {x});
  if (!negative && !positive) return n.emit(ir::Binary{BinaryKind::kLess}, {x, x});
  const double wanted = positive ? HUGE_VAL : -HUGE_VAL;
  n.emit(ir::Binary{BinaryKind::kEqual}, {x, n.make_scalar(wanted, x)});
}

/// Mean of any number of operands.
void convert_mean(NodeContext& n) {
  const auto inputs = n.all_inputs();
  if (n.failed()) return;
  ValueId sum = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) sum = binary(n, BinaryKind::kAdd, sum, inputs[i]);
  n.bind(0, with_scalar(n, BinaryKind::kDiv, sum, static_cast<double>(inputs.size())));
}

void convert_where(NodeContext& n) {
  n.emit(ir::Where{}, {n.in(0), n.in(1), n.in(2)});
}

OperatorRule before_7(std::string_view name, Converter convert) {
  return onnx_rule(name, {1, 6}, 2, convert, {"axis", "broadcast"});
}

}  // namespace

// Version 7 introduced numpy's broadcasting for binary operators.
std::vector<OperatorRule> elementwise_rules() {
  return {
      onnx_rule("Abs", 1, 1, convert_unary<UnaryKind::kAbs>),
      onnx_rule("Ceil", 1, 1, convert_unary<UnaryKind::kCeil>),
      onnx_rule("Cos", 7, 1, convert_unary<UnaryKind::kCos>),
      onnx_rule("Erf", 9, 1, convert_unary<UnaryKind::kErf>),
      onnx_rule("Exp", 1, 1, convert_unary<UnaryKind::kExp>),
      onnx_rule("Floor", 1, 1, convert_unary<UnaryKind::kFloor>),
      onnx_rule("IsNaN", 9, 1, convert_unary<UnaryKind::kIsNan>),
      onnx_rule("Log", 1, 1, convert_unary<UnaryKind::kLog>),
      onnx_rule("Neg", 1, 1, convert_unary<UnaryKind::kNeg>),
      onnx_rule("Not", 1, 1, convert_unary<UnaryKind::kNot>),
      onnx_rule("Reciprocal", 1, 1, convert_unary<UnaryKind::kReciprocal>),
      onnx_rule("Relu", 1, 1, convert_unary<UnaryKind::kRelu>),
      onnx_rule("Round", 11, 1, convert_unary<UnaryKind::kRound>),
      onnx_rule("Sigmoid", 1, 1, convert_unary<UnaryKind::kSigmoid>),
      onnx_rule("Sign", 9, 1, convert_unary<UnaryKind::kSign>),
      onnx_rule("Sin", 7, 1, convert_unary<UnaryKind::kSin>),
      onnx_rule("Sqrt", 1, 1, convert_unary<UnaryKind::kSqrt>),
      onnx_rule("Tanh", 1, 1, convert_unary<UnaryKind::kTanh>),
      onnx_rule("Add", 7, 2, convert_binary<BinaryKind::kAdd>),
      before_7("Add", convert_old_binary<BinaryKind::kAdd>),
      onnx_rule("And", 7, 2, convert_binary<BinaryKind::kAnd>),
      before_7("And", convert_old_binary<BinaryKind::kAnd>),
      onnx_rule("Div", 7, 2, convert_binary<BinaryKind::kDiv>),
      before_7("Div", convert_old_binary<BinaryKind::kDiv>),
      onnx_rule("Equal", 7, 2, convert_binary<BinaryKind::kEqual>),
      before_7("Equal", convert_old_binary<BinaryKind::kEqual>),
      onnx_rule("Greater", 7, 2, convert_binary<BinaryKind::kGreater>),
      before_7("Greater", convert_old_binary<BinaryKind::kGreater>),
      onnx_rule("GreaterOrEqual", 12, 2, convert_binary<BinaryKind::kGreaterOrEqual>),
      onnx_rule("Less", 7, 2, convert_binary<BinaryKind::kLess>),
      before_7("Less", convert_old_binary<BinaryKind::kLess>),
      onnx_rule("LessOrEqual", 12, 2, convert_binary<BinaryKind::kLessOrEqual>),
      onnx_rule("Mul", 7, 2, convert_binary<BinaryKind::kMul>),
      before_7("Mul", convert_old_binary<BinaryKind::kMul>),
      onnx_rule("Or", 7, 2, convert_binary<BinaryKind::kOr>),
      before_7("Or", convert_old_binary<BinaryKind::kOr>),
      onnx_rule("Xor", 7, 2, convert_binary<BinaryKind::kXor>),
      before_7("Xor", convert_old_binary<BinaryKind::kXor>),
      onnx_rule("Sub", 7, 2, convert_binary<BinaryKind::kSub>),
      before_7("Sub", convert_old_binary<BinaryKind::kSub>),
      onnx_rule("Pow", 7, 2, convert_pow),
      before_7("Pow", convert_old_binary<BinaryKind::kPow>),
      onnx_rule("Max", 1, {1, kAnyCount}, convert_variadic<BinaryKind::kMax>),
      onnx_rule("Min", 1, {1, kAnyCount}, convert_variadic<BinaryKind::kMin>),
      onnx_rule("Sum", 1, {1, kAnyCount}, convert_variadic<BinaryKind::kAdd>),
      onnx_rule("Clip", 1, {1, 3}, convert_clip, {"min", "max"}),
      onnx_rule("Mean", 1, {1, kAnyCount}, convert_mean),
      onnx_rule("Mod", 10, 2, convert_mod, {"fmod"}),
      onnx_rule("IsInf", 10, 1, convert_is_inf, {"detect_negative", "detect_positive"}),
      onnx_rule("Where", 9, 3, convert_where),
  };
}

}  // namespace llmc::importer

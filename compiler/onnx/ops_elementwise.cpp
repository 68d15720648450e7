// Operators that work element by element.

#include <cmath>
#include <numbers>

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

/// Sum, Min, Max of any number of operands: a chain of two-operand ones.
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

/// The exponent may have an element type of its own from 12 on; it takes the base's.
void convert_pow(NodeContext& n) {
  const ValueId base = n.in(0), exponent = n.in(1);
  if (n.failed()) return;
  n.emit(ir::Binary{BinaryKind::kPow}, {base, n.cast(exponent, n.type(base).element)});
}

/// Clip = Min(Max(x, low), high); bounds are attributes until 10, operands later.
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

/// Gelu (Hendrycks & Gimpel 2016): x/2 (1 + erf(x/√2)), or with approximate = "tanh"
/// x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))).
void convert_gelu(NodeContext& n) {
  const ValueId x = n.in(0);
  const std::string approximate = n.text("approximate", "none");
  const auto scaled = [&](double factor, ValueId value) {
    return n.make(ir::Binary{BinaryKind::kMul}, {value, n.make_scalar(factor, x)});
  };
  ValueId inner;
  if (approximate == "none") {
    inner = n.make(ir::Unary{UnaryKind::kErf}, {scaled(1 / std::numbers::sqrt2, x)});
  } else if (approximate == "tanh") {
    const ValueId square = n.make(ir::Binary{BinaryKind::kMul}, {x, x});
    const ValueId cube = n.make(ir::Binary{BinaryKind::kMul}, {square, x});
    const ValueId sum = n.make(ir::Binary{BinaryKind::kAdd}, {x, scaled(0.044715, cube)});
    inner = n.make(ir::Unary{UnaryKind::kTanh}, {scaled(std::sqrt(2 / std::numbers::pi), sum)});
  } else {
    return n.bad("attribute 'approximate' is neither 'none' nor 'tanh'");
  }
  const ValueId gate = n.make(ir::Binary{BinaryKind::kAdd}, {inner, n.make_scalar(1, x)});
  n.emit(ir::Binary{BinaryKind::kMul}, {scaled(0.5, x), gate});
}

/// Swish (Ramachandran et al. 2017): x sigmoid(alpha x).
void convert_swish(NodeContext& n) {
  const ValueId x = n.in(0);
  const float alpha = n.number("alpha", 1);
  const ValueId scaled =
      alpha == 1 ? x : n.make(ir::Binary{BinaryKind::kMul}, {x, n.make_scalar(alpha, x)});
  n.emit(ir::Binary{BinaryKind::kMul}, {x, n.make(ir::Unary{UnaryKind::kSigmoid}, {scaled})});
}

void convert_where(NodeContext& n) {
  n.emit(ir::Where{}, {n.in(0), n.in(1), n.in(2)});
}

OperatorRule unary(std::string_view name, std::int64_t since, void (*convert)(NodeContext&)) {
  return {"", name, since, kAnyLater, 1, 1, {}, convert};
}

OperatorRule binary(std::string_view name, std::int64_t since, void (*convert)(NodeContext&)) {
  return {"", name, since, kAnyLater, 2, 2, {}, convert};
}

}  // namespace

// Two-operand operators start at 7, where their broadcasting became numpy's.
std::vector<OperatorRule> elementwise_rules() {
  return {
      unary("Abs", 6, convert_unary<UnaryKind::kAbs>),
      unary("Ceil", 6, convert_unary<UnaryKind::kCeil>),
      unary("Cos", 7, convert_unary<UnaryKind::kCos>),
      unary("Erf", 9, convert_unary<UnaryKind::kErf>),
      unary("Exp", 6, convert_unary<UnaryKind::kExp>),
      unary("Floor", 6, convert_unary<UnaryKind::kFloor>),
      {"", "IsNaN", 9, kAnyLater, 1, 1, {}, convert_unary<UnaryKind::kIsNan>},
      unary("Log", 6, convert_unary<UnaryKind::kLog>),
      unary("Neg", 6, convert_unary<UnaryKind::kNeg>),
      unary("Not", 1, convert_unary<UnaryKind::kNot>),
      unary("Reciprocal", 6, convert_unary<UnaryKind::kReciprocal>),
      unary("Relu", 6, convert_unary<UnaryKind::kRelu>),
      unary("Sigmoid", 6, convert_unary<UnaryKind::kSigmoid>),
      unary("Sin", 7, convert_unary<UnaryKind::kSin>),
      unary("Sqrt", 6, convert_unary<UnaryKind::kSqrt>),
      unary("Tanh", 6, convert_unary<UnaryKind::kTanh>),
      binary("Add", 7, convert_binary<BinaryKind::kAdd>),
      binary("And", 7, convert_binary<BinaryKind::kAnd>),
      binary("Div", 7, convert_binary<BinaryKind::kDiv>),
      binary("Equal", 7, convert_binary<BinaryKind::kEqual>),
      binary("Greater", 7, convert_binary<BinaryKind::kGreater>),
      binary("GreaterOrEqual", 12, convert_binary<BinaryKind::kGreaterOrEqual>),
      binary("Less", 7, convert_binary<BinaryKind::kLess>),
      binary("LessOrEqual", 12, convert_binary<BinaryKind::kLessOrEqual>),
      binary("Mul", 7, convert_binary<BinaryKind::kMul>),
      binary("Or", 7, convert_binary<BinaryKind::kOr>),
      binary("Sub", 7, convert_binary<BinaryKind::kSub>),
      binary("Pow", 7, convert_pow),
      {"", "Max", 8, kAnyLater, 1, kAnyCount, {}, convert_variadic<BinaryKind::kMax>},
      {"", "Min", 8, kAnyLater, 1, kAnyCount, {}, convert_variadic<BinaryKind::kMin>},
      {"", "Sum", 8, kAnyLater, 1, kAnyCount, {}, convert_variadic<BinaryKind::kAdd>},
      {"", "Clip", 6, kAnyLater, 1, 3, {"min", "max"}, convert_clip},
      {"", "Gelu", 20, kAnyLater, 1, 1, {"approximate"}, convert_gelu},
      {"", "Swish", 24, kAnyLater, 1, 1, {"alpha"}, convert_swish},
      {"", "Where", 9, kAnyLater, 3, 3, {}, convert_where},
  };
}

}  // namespace llmc::importer

// Activation functions, spelled out in elementwise primitives.

#include <cmath>
#include <numbers>

#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using enum ir::BinaryKind;
using ir::UnaryKind;
using ir::ValueId;

/// Gelu (Hendrycks & Gimpel 2016): x/2 (1 + erf(x/√2)), or with approximate = "tanh"
/// x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))).
void convert_gelu(NodeContext& n) {
  const ValueId x = n.in(0);
  const std::string approximate = n.text("approximate", "none");
  ValueId inner;
  if (approximate == "none") {
    inner = unary(n, UnaryKind::kErf, with_scalar(n, kMul, x, 1 / std::numbers::sqrt2));
  } else if (approximate == "tanh") {
    const ValueId cube = binary(n, kMul, binary(n, kMul, x, x), x);
    const ValueId sum = binary(n, kAdd, x, with_scalar(n, kMul, cube, 0.044715));
    inner = unary(n, UnaryKind::kTanh, with_scalar(n, kMul, sum, std::sqrt(2 / std::numbers::pi)));
  } else {
    return n.bad("attribute 'approximate' is neither 'none' nor 'tanh'");
  }
  const ValueId half = with_scalar(n, kMul, x, 0.5);
  n.emit(ir::Binary{kMul}, {half, with_scalar(n, kAdd, inner, 1)});
}

/// Swish (Ramachandran et al. 2017): x sigmoid(alpha x).
void convert_swish(NodeContext& n) {
  const ValueId x = n.in(0);
  const float alpha = n.number("alpha", 1);
  const ValueId scaled = alpha == 1 ? x : with_scalar(n, kMul, x, alpha);
  n.emit(ir::Binary{kMul}, {x, unary(n, UnaryKind::kSigmoid, scaled)});
}

/// max(0, min(1, alpha x + beta)).
ValueId hard_sigmoid(NodeContext& n, ValueId x, double alpha, double beta) {
  return clipped(n, with_scalar(n, kAdd, with_scalar(n, kMul, x, alpha), beta), 0, 1);
}

void convert_hard_sigmoid(NodeContext& n) {
  n.bind(0, hard_sigmoid(n, n.in(0), n.number("alpha", 0.2f), n.number("beta", 0.5f)));
}

/// x · HardSigmoid(x) with alpha = 1/6 and beta = 1/2.
void convert_hard_swish(NodeContext& n) {
  const ValueId x = n.in(0);
  n.emit(ir::Binary{kMul}, {x, hard_sigmoid(n, x, 1.0 / 6, 0.5)});
}

/// `negative` where x < 0, x elsewhere (also NaN).
void emit_below_zero(NodeContext& n, ValueId x, ValueId negative) {
  const ValueId below = with_scalar(n, kLess, x, 0);
  n.emit(ir::Where{}, {below, negative, x});
}

void convert_leaky_relu(NodeContext& n) {
  const ValueId x = n.in(0);
  emit_below_zero(n, x, with_scalar(n, kMul, x, n.number("alpha", 0.01f)));
}

void convert_prelu(NodeContext& n) {
  const ValueId x = n.in(0);
  emit_below_zero(n, x, binary(n, kMul, x, n.in(1)));
}

/// exp(min(x, 0)) - 1: the part below zero, without overflow above.
ValueId exp_below_zero(NodeContext& n, ValueId x) {
  return with_scalar(n, kSub, unary(n, UnaryKind::kExp, with_scalar(n, kMin, x, 0)), 1);
}

void convert_elu(NodeContext& n) {
  const ValueId x = n.in(0);
  emit_below_zero(n, x, with_scalar(n, kMul, exp_below_zero(n, x), n.number("alpha", 1)));
}

/// gamma · (x above 0, alpha (exp(x) - 1) below); Klambauer et al. 2017.
void convert_selu(NodeContext& n) {
  const ValueId x = n.in(0);
  const float alpha = n.number("alpha", 1.67326319217681884765625f);
  const float gamma = n.number("gamma", 1.05070102214813232421875f);
  const ValueId negative = with_scalar(n, kMul, exp_below_zero(n, x), alpha);
  const ValueId chosen = n.make(ir::Where{}, {with_scalar(n, kLess, x, 0), negative, x});
  n.emit(ir::Binary{kMul}, {chosen, n.make_scalar(gamma, x)});
}

/// max(0, x) + min(0, alpha (exp(x / alpha) - 1)).
void convert_celu(NodeContext& n) {
  const ValueId x = n.in(0);
  const float alpha = n.number("alpha", 1);
  const ValueId below = exp_below_zero(n, with_scalar(n, kDiv, x, alpha));
  const ValueId scaled = with_scalar(n, kMin, with_scalar(n, kMul, below, alpha), 0);
  n.emit(ir::Binary{kAdd}, {with_scalar(n, kMax, x, 0), scaled});
}

/// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), which does not overflow.
ValueId softplus(NodeContext& n, ValueId x) {
  const ValueId decay =
      unary(n, UnaryKind::kExp, unary(n, UnaryKind::kNeg, unary(n, UnaryKind::kAbs, x)));
  const ValueId rest = unary(n, UnaryKind::kLog, with_scalar(n, kAdd, decay, 1));
  return binary(n, kAdd, with_scalar(n, kMax, x, 0), rest);
}

void convert_softplus(NodeContext& n) {
  n.bind(0, softplus(n, n.in(0)));
}

/// x tanh(softplus(x)); Misra 2019.
void convert_mish(NodeContext& n) {
  const ValueId x = n.in(0);
  n.emit(ir::Binary{kMul}, {x, unary(n, UnaryKind::kTanh, softplus(n, x))});
}

void convert_softsign(NodeContext& n) {
  const ValueId x = n.in(0);
  n.emit(ir::Binary{kDiv}, {x, with_scalar(n, kAdd, unary(n, UnaryKind::kAbs, x), 1)});
}

void convert_thresholded_relu(NodeContext& n) {
  const ValueId x = n.in(0);
  const ValueId above = with_scalar(n, kGreater, x, n.number("alpha", 1));
  n.emit(ir::Where{}, {above, x, n.make_scalar(0, x)});
}

/// x + bias below -lambd, x - bias above lambd, 0 between.
void convert_shrink(NodeContext& n) {
  const ValueId x = n.in(0);
  const float bias = n.number("bias", 0), lambd = n.number("lambd", 0.5f);
  const ValueId above = n.make(ir::Where{}, {with_scalar(n, kGreater, x, lambd),
                                             with_scalar(n, kSub, x, bias), n.make_scalar(0, x)});
  n.emit(ir::Where{}, {with_scalar(n, kLess, x, -lambd), with_scalar(n, kAdd, x, bias), above});
}

/// (exp(x) ± exp(-x)) / 2.
template <ir::BinaryKind kKind>
void convert_hyperbolic(NodeContext& n) {
  const ValueId x = n.in(0);
  const ValueId up = unary(n, UnaryKind::kExp, x);
  const ValueId down = unary(n, UnaryKind::kExp, unary(n, UnaryKind::kNeg, x));
  n.emit(ir::Binary{kMul}, {binary(n, kKind, up, down), n.make_scalar(0.5, x)});
}

void convert_tan(NodeContext& n) {
  const ValueId x = n.in(0);
  n.emit(ir::Binary{kDiv}, {unary(n, UnaryKind::kSin, x), unary(n, UnaryKind::kCos, x)});
}

}  // namespace

std::vector<OperatorRule> activation_rules() {
  return {
      {"", "Gelu", 20, kAnyLater, 1, 1, {"approximate"}, convert_gelu},
      {"", "Swish", 24, kAnyLater, 1, 1, {"alpha"}, convert_swish},
      {"", "HardSigmoid", 6, kAnyLater, 1, 1, {"alpha", "beta"}, convert_hard_sigmoid},
      {"", "HardSwish", 14, kAnyLater, 1, 1, {}, convert_hard_swish},
      {"", "LeakyRelu", 6, kAnyLater, 1, 1, {"alpha"}, convert_leaky_relu},
      {"", "PRelu", 7, kAnyLater, 2, 2, {}, convert_prelu},
      {"", "Elu", 6, kAnyLater, 1, 1, {"alpha"}, convert_elu},
      {"", "Selu", 6, kAnyLater, 1, 1, {"alpha", "gamma"}, convert_selu},
      {"", "Celu", 12, kAnyLater, 1, 1, {"alpha"}, convert_celu},
      {"", "Softplus", 1, kAnyLater, 1, 1, {}, convert_softplus},
      {"", "Mish", 18, kAnyLater, 1, 1, {}, convert_mish},
      {"", "Softsign", 1, kAnyLater, 1, 1, {}, convert_softsign},
      {"", "ThresholdedRelu", 10, kAnyLater, 1, 1, {"alpha"}, convert_thresholded_relu},
      {"", "Shrink", 9, kAnyLater, 1, 1, {"bias", "lambd"}, convert_shrink},
      {"", "Sinh", 9, kAnyLater, 1, 1, {}, convert_hyperbolic<kSub>},
      {"", "Cosh", 9, kAnyLater, 1, 1, {}, convert_hyperbolic<kAdd>},
      {"", "Tan", 7, kAnyLater, 1, 1, {}, convert_tan},
  };
}

}  // namespace llmc::importer

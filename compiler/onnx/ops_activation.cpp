// Activation functions, expressed by elementwise operators.

#include "compiler/onnx/f64_functions.h"
#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using enum ir::BinaryKind;
using ir::UnaryKind;
using ir::ValueId;

void convert_gelu(NodeContext& n) {
  const ValueId x = n.in(0);
  const std::string approximate = n.text("approximate", "none");
  if (approximate == "none") return n.bind(0, gelu_erf(n, x));
  if (approximate == "tanh") return n.bind(0, gelu_tanh(n, x));
  n.bad("attribute 'approximate' is neither 'none' nor 'tanh'");
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

/// Returns `negative` where x < 0, and x elsewhere, also where x is NaN.
ValueId below_zero(NodeContext& n, ValueId x, ValueId negative) {
  return chosen(n, with_scalar(n, kLess, x, 0), negative, x);
}

void convert_leaky_relu(NodeContext& n) {
  const ValueId x = n.in(0);
  n.bind(0, below_zero(n, x, with_scalar(n, kMul, x, n.number("alpha", 0.01f))));
}

/// PRelu. Until version 6 the slope is one number, or one for each channel of x [N, C, …].
void convert_prelu(NodeContext& n) {
  const ValueId x = n.in(0);
  ValueId slope = n.in(1);
  if (n.failed()) return;
  if (n.opset() < 7 && n.rank(slope) == 1 && known_dim(n, slope, 0) != 1 && n.rank(x) > 2)
    slope = unsqueezed(n, slope, axis_range(1, n.rank(x) - 1));
  n.bind(0, below_zero(n, x, binary(n, kMul, x, slope)));
}

/// exp(min(x, 0)) - 1, which does not overflow for large x.
ValueId exp_below_zero(NodeContext& n, ValueId x) {
  return exp_minus_1(n, with_scalar(n, kMin, x, 0));
}

ValueId elu(NodeContext& n, ValueId x) {
  return below_zero(n, x, with_scalar(n, kMul, exp_below_zero(n, x), n.number("alpha", 1)));
}

/// gamma · x for x > 0, gamma · alpha (exp(x) - 1) otherwise; Klambauer et al. 2017.
ValueId selu(NodeContext& n, ValueId x) {
  const float alpha = n.number("alpha", n.opset() < 6 ? 1.6732f : 1.67326319217681884765625f);
  const float gamma = n.number("gamma", n.opset() < 6 ? 1.0507f : 1.05070102214813232421875f);
  const ValueId negative = with_scalar(n, kMul, exp_below_zero(n, x), alpha);
  return with_scalar(n, kMul, below_zero(n, x, negative), gamma);
}

/// max(0, x) + min(0, alpha (exp(x / alpha) - 1)).
ValueId celu(NodeContext& n, ValueId x) {
  const float alpha = n.number("alpha", 1);
  const ValueId below = exp_below_zero(n, with_scalar(n, kDiv, x, alpha));
  const ValueId scaled = with_scalar(n, kMin, with_scalar(n, kMul, below, alpha), 0);
  return binary(n, kAdd, with_scalar(n, kMax, x, 0), scaled);
}

/// exp(-|x|), which does not overflow.
ValueId decay(NodeContext& n, ValueId x) {
  return unary(n, UnaryKind::kExp, unary(n, UnaryKind::kNeg, unary(n, UnaryKind::kAbs, x)));
}

/// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)).
ValueId softplus(NodeContext& n, ValueId x) {
  return binary(n, kAdd, with_scalar(n, kMax, x, 0), log_of_1_plus(n, decay(n, x)));
}

/// x tanh(softplus(x)); Misra 2019. With d = exp(-|x|), the tanh is (1 + 2d) / (1 + 2d + 2d²) for x
/// > 0 and (d² + 2d) / (d² + 2d + 2) otherwise. All terms are positive, so there is no
/// cancellation.
ValueId mish(NodeContext& n, ValueId x) {
  const ValueId d = decay(n, x), square = binary(n, kMul, d, d), twice = binary(n, kAdd, d, d);
  const ValueId positive = with_scalar(n, kGreaterOrEqual, x, 0);
  const ValueId up = with_scalar(n, kAdd, twice, 1), down = binary(n, kAdd, twice, square);
  const ValueId upper = chosen(n, positive, up, down);
  const ValueId rest = chosen(n, positive, binary(n, kAdd, square, square), n.make_scalar(2, x));
  return binary(n, kMul, x, binary(n, kDiv, upper, binary(n, kAdd, upper, rest)));
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

/// x + bias for x < -lambd, x - bias for x > lambd, otherwise 0.
void convert_shrink(NodeContext& n) {
  const ValueId x = n.in(0);
  const float bias = n.number("bias", 0), lambd = n.number("lambd", 0.5f);
  const ValueId above = n.make(ir::Where{}, {with_scalar(n, kGreater, x, lambd),
                                             with_scalar(n, kSub, x, bias), n.make_scalar(0, x)});
  n.emit(ir::Where{}, {with_scalar(n, kLess, x, -lambd), with_scalar(n, kAdd, x, bias), above});
}

}  // namespace

std::vector<OperatorRule> activation_rules() {
  return {
      onnx_rule("Gelu", 20, 1, convert_gelu, {"approximate"}),
      onnx_rule("Swish", 24, 1, convert_swish, {"alpha"}),
      onnx_rule("HardSigmoid", 1, 1, convert_hard_sigmoid, {"alpha", "beta"}),
      onnx_rule("HardSwish", 14, 1, convert_hard_swish),
      onnx_rule("LeakyRelu", 1, 1, convert_leaky_relu, {"alpha"}),
      onnx_rule("PRelu", 1, 2, convert_prelu),
      onnx_rule("Elu", 1, 1, convert_in_f64<elu>, {"alpha"}),
      onnx_rule("Selu", 1, 1, convert_in_f64<selu>, {"alpha", "gamma"}),
      onnx_rule("Celu", 12, 1, convert_in_f64<celu>, {"alpha"}),
      onnx_rule("Softplus", 1, 1, convert_in_f64<softplus>),
      onnx_rule("Mish", 18, 1, convert_in_f64<mish>),
      onnx_rule("Softsign", 1, 1, convert_softsign),
      onnx_rule("ThresholdedRelu", 10, 1, convert_thresholded_relu, {"alpha"}),
      onnx_rule("Shrink", 9, 1, convert_shrink, {"bias", "lambd"}),
  };
}

}  // namespace llmc::importer

// Operators of onnxruntime's domain com.microsoft: norms, activations, products.

#include <cfloat>
#include <cmath>

#include "compiler/onnx/fused_activation.h"
#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::UnaryKind;
using ir::ValueId;

ValueId plus(NodeContext& n, ValueId a, ValueId b) {
  return binary(n, BinaryKind::kAdd, a, b);
}

void convert_contrib_gelu(NodeContext& n) {
  n.bind(0, gelu_erf(n, n.in(0)));
}

/// Gelu(x + bias).
void convert_bias_gelu(NodeContext& n) {
  n.bind(0, gelu_erf(n, plus(n, n.in(0), n.in(1))));
}

/// The tanh form of Gelu, of x or x + bias.
void convert_fast_gelu(NodeContext& n) {
  const ValueId x = n.in(0);
  n.bind(0, gelu_tanh(n, n.has(1) ? plus(n, x, n.in(1)) : x));
}

/// x sigmoid(alpha x).
void convert_quick_gelu(NodeContext& n) {
  const ValueId x = n.in(0);
  const float alpha = n.number("alpha", 1.702f);
  const ValueId inner = alpha == 1 ? x : with_scalar(n, BinaryKind::kMul, x, alpha);
  n.bind(0, binary(n, BinaryKind::kMul, x, unary(n, UnaryKind::kSigmoid, inner)));
}

/// Binds output 3, the sum that is normalized. Reports an error and returns false if outputs 1 or 2
/// (mean, inverse deviation), which are for training, are used.
bool bind_sum(NodeContext& n, ValueId sum) {
  if (n.wants(1) || n.wants(2)) {
    n.unsupported("the outputs for training are not supported");
    return false;
  }
  n.bind(3, sum);
  return !n.failed();
}

/// RMS norm over the last dim, like the operator in the standard domain.
void convert_contrib_rms_norm(NodeContext& n) {
  const ValueId x = n.in(0);
  const std::int64_t rank = n.rank(x), axis = n.axis("axis", -1, rank);
  n.ignore("stash_type");  // always f32
  if (n.failed()) return;
  if (axis != rank - 1)
    return n.unsupported("normalization over more than the last dim is not supported");
  n.emit(ir::RmsNorm{n.number("epsilon", 1e-5f)}, {x, n.in(1)});
}

/// RMS norm of input + skip (+ bias).
void convert_skip_rms_norm(NodeContext& n) {
  ValueId sum = plus(n, n.in(0), n.in(1));
  if (n.has(3)) sum = plus(n, sum, n.in(3));
  if (bind_sum(n, sum)) n.bind(0, n.make(ir::RmsNorm{n.number("epsilon", 1e-12f)}, {sum, n.in(2)}));
}

/// Layer norm of input + skip (+ bias).
void convert_skip_layer_norm(NodeContext& n) {
  ValueId sum = plus(n, n.in(0), n.in(1));
  if (n.has(4)) sum = plus(n, sum, n.in(4));
  if (bind_sum(n, sum))
    n.bind(0, n.make(ir::LayerNorm{n.number("epsilon", 1e-12f)}, {sum, n.in(2), n.optional_in(3)}));
}

/// alpha * op(a) op(b), where op may transpose the last two dims.
void convert_fused_matmul(NodeContext& n) {
  const auto operand = [&](std::size_t i, const char* flag) {
    const ValueId x = n.in(i);
    if (n.integer(flag, 0) == 0 || n.failed()) return x;
    const std::int64_t rank = n.rank(x);
    if (rank < 2) return x;
    std::vector<std::int64_t> perm;
    for (std::int64_t axis = 0; axis < rank; ++axis) perm.push_back(axis);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return n.make(ir::Transpose{std::move(perm)}, {x});
  };
  if (n.integer("transBatchA", 0) != 0 || n.integer("transBatchB", 0) != 0)
    return n.unsupported("transBatchA and transBatchB are not supported");
  const ValueId product = n.make(ir::MatMul{}, {operand(0, "transA"), operand(1, "transB")});
  const float alpha = n.number("alpha", 1);
  n.bind(0, alpha == 1 ? product : with_scalar(n, BinaryKind::kMul, product, alpha));
}

}  // namespace

ValueId activated(NodeContext& n, ValueId x, const std::vector<std::optional<float>>& parameters) {
  const std::string name = n.text("activation", "");
  if (n.failed()) return ir::kNoValue;
  if (name.empty()) return x;
  const auto parameter = [&](std::size_t i, float fallback) {
    return i < parameters.size() ? parameters[i].value_or(fallback) : fallback;
  };
  if (name == "Relu") return unary(n, UnaryKind::kRelu, x);
  if (name == "Sigmoid") return unary(n, UnaryKind::kSigmoid, x);
  if (name == "Tanh") return unary(n, UnaryKind::kTanh, x);
  if (name == "Clip") return clipped(n, x, parameter(0, -FLT_MAX), parameter(1, FLT_MAX));
  if (name == "LeakyRelu")
    return n.make(ir::Where{}, {binary(n, BinaryKind::kLess, x, n.make_scalar(0, x)),
                                with_scalar(n, BinaryKind::kMul, x, parameter(0, 0.01f)), x});
  if (name == "HardSigmoid") {
    const ValueId line = plus(n, with_scalar(n, BinaryKind::kMul, x, parameter(0, 0.2f)),
                              n.make_scalar(parameter(1, 0.5f), x));
    return clipped(n, line, 0, 1);
  }
  n.unsupported("the activation '" + name + "' is not supported");
  return ir::kNoValue;
}

std::vector<OperatorRule> contrib_rules() {
  return {
      contrib_rule("Gelu", 1, convert_contrib_gelu),
      contrib_rule("BiasGelu", 2, convert_bias_gelu),
      contrib_rule("FastGelu", {1, 2}, convert_fast_gelu),
      contrib_rule("QuickGelu", 1, convert_quick_gelu, {"alpha"}),
      contrib_rule("SimplifiedLayerNormalization", 2, convert_contrib_rms_norm,
                   {"axis", "epsilon", "stash_type"}),
      contrib_rule("SkipSimplifiedLayerNormalization", {3, 4}, convert_skip_rms_norm, {"epsilon"}),
      // Some of onnxruntime's exporters write its operators in the standard domain.
      onnx_rule("SkipSimplifiedLayerNormalization", 1, {3, 4}, convert_skip_rms_norm, {"epsilon"}),
      contrib_rule("SkipLayerNormalization", {3, 5}, convert_skip_layer_norm, {"epsilon"}),
      contrib_rule("FusedMatMul", 2, convert_fused_matmul,
                   {"alpha", "transA", "transB", "transBatchA", "transBatchB"}),
  };
}

}  // namespace llmc::importer

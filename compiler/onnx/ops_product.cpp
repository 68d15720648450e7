// Matrix products.

#include "compiler/onnx/fused_activation.h"
#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::ValueId;

void convert_matmul(NodeContext& n) {
  n.emit(ir::MatMul{}, {n.in(0), n.in(1)});
}

/// Converts op(a) op(b) + c of integers to separate operators. Fails for alpha and beta other than
/// 1.
void integer_gemm(NodeContext& n, const ir::Gemm& gemm) {
  if (gemm.alpha != 1 || (gemm.beta != 1 && n.has(2)))
    return n.unsupported("integers with alpha or beta other than 1 are not supported");
  const auto turned = [&](ValueId x, bool turn) {
    return turn ? n.make(ir::Transpose{{1, 0}}, {x}) : x;
  };
  for (std::size_t i = 0; i < 2; ++i)
    if (n.rank(n.in(i)) != 2) return n.bad("operand " + std::to_string(i) + " is not a matrix");
  const ValueId product =
      n.make(ir::MatMul{}, {turned(n.in(0), gemm.trans_a), turned(n.in(1), gemm.trans_b)});
  n.bind(0, n.has(2) ? binary(n, ir::BinaryKind::kAdd, product, n.in(2)) : product);
}

ir::Gemm gemm_of(NodeContext& n) {
  ir::Gemm gemm;
  gemm.alpha = n.number("alpha", 1);
  gemm.beta = n.number("beta", 1);
  gemm.trans_a = n.integer("transA", 0) != 0;
  gemm.trans_b = n.integer("transB", 0) != 0;
  if (n.opset() < 7) n.ignore("broadcast");  // c may always be broadcast
  return gemm;
}

void convert_gemm(NodeContext& n) {
  const ir::Gemm gemm = gemm_of(n);
  const ValueId a = n.in(0), b = n.in(1);
  if (n.failed()) return;
  if (!ir::is_float(n.type(a).element)) return integer_gemm(n, gemm);
  n.emit(gemm, {a, b, n.optional_in(2)});
}

/// A Gemm of floats and an activation.
void convert_fused_gemm(NodeContext& n) {
  const ir::Gemm gemm = gemm_of(n);
  std::vector<std::optional<float>> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"})
    parameters.push_back(n.has_attribute(name) ? std::optional(n.number(name, 0)) : std::nullopt);
  const ValueId a = n.in(0), b = n.in(1);
  n.bind(0, activated(n, n.make(gemm, {a, b, n.optional_in(2)}), parameters));
}

}  // namespace

std::vector<OperatorRule> product_rules() {
  return {
      onnx_rule("MatMul", 1, 2, convert_matmul),
      onnx_rule("Gemm", 1, {2, 3}, convert_gemm,
                {"alpha", "beta", "broadcast", "transA", "transB"}),
      contrib_rule("FusedGemm", {2, 3}, convert_fused_gemm,
                   {"activation", "activation_alpha", "activation_beta", "activation_gamma",
                    "alpha", "beta", "transA", "transB"}),
  };
}

}  // namespace llmc::importer

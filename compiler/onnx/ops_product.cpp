// Matrix products.

#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

void convert_matmul(NodeContext& n) {
  n.emit(ir::MatMul{}, {n.in(0), n.in(1)});
}

void convert_gemm(NodeContext& n) {
  ir::Gemm gemm;
  gemm.alpha = n.number("alpha", 1);
  gemm.beta = n.number("beta", 1);
  gemm.trans_a = n.integer("transA", 0) != 0;
  gemm.trans_b = n.integer("transB", 0) != 0;
  n.emit(gemm, {n.in(0), n.in(1), n.optional_in(2)});
}

}  // namespace

std::vector<OperatorRule> product_rules() {
  return {
      {"", "MatMul", 1, kAnyLater, 2, 2, {}, convert_matmul},
      {"", "Gemm", 7, kAnyLater, 2, 3, {"alpha", "beta", "transA", "transB"}, convert_gemm},
  };
}

}  // namespace llmc::importer

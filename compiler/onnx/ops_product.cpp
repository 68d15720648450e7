// Matrix products, reductions, softmax and normalisations.

#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::ReduceKind;
using ir::ValueId;

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

/// Until 12 the dims from `axis` on are normalised as one; with the last axis that is the same as
/// from 13 on.
void convert_softmax(NodeContext& n) {
  const ValueId x = n.in(0);
  const std::int64_t rank = n.rank(x);
  const std::int64_t axis = n.axis("axis", n.opset() < 13 ? 1 : -1, rank);
  if (n.failed()) return;
  if (n.opset() < 13 && axis != rank - 1)
    return n.unsupported(
        "before operator set 13, softmax over more than the last dim is not "
        "supported",
        "export with opset 13 or later");
  n.emit(ir::Softmax{axis}, {x});
}

/// Axes became an operand with 13 (ReduceSum) or 18 (the others).
template <ReduceKind kKind, std::int64_t kAxesInputSince>
void convert_reduce(NodeContext& n) {
  const ValueId x = n.in(0);
  auto axes = n.axes("axes", kAxesInputSince, 1, n.rank(x));
  const bool keep_dims = n.integer("keepdims", 1) != 0;
  const bool empty_is_none = n.integer("noop_with_empty_axes", 0) != 0;
  if (n.failed()) return;
  if (!axes) axes.emplace();
  if (axes->empty() && empty_is_none) return n.bind(0, x);
  n.emit(ir::Reduce{kKind, std::move(*axes), keep_dims}, {x});
}

void convert_arg_max(NodeContext& n) {
  const ValueId x = n.in(0);
  const std::int64_t axis = n.axis("axis", 0, n.rank(x));
  const bool keep_dims = n.integer("keepdims", 1) != 0;
  if (n.integer("select_last_index", 0) != 0)
    return n.unsupported("select_last_index = 1 is not supported");
  n.emit(ir::ArgMax{axis, keep_dims}, {x});
}

/// Checks that a normalisation goes over the last dim only; its other outputs are for training.
bool is_over_last_dim(NodeContext& n) {
  const std::int64_t rank = n.rank(n.in(0));
  const std::int64_t axis = n.axis("axis", -1, rank);
  if (n.failed()) return false;
  if (axis != rank - 1) n.unsupported("normalisation over more than the last dim is not supported");
  return !n.failed();
}

void convert_layer_norm(NodeContext& n) {
  if (!is_over_last_dim(n)) return;
  n.emit(ir::LayerNorm{n.number("epsilon", 1e-5f)}, {n.in(0), n.in(1), n.optional_in(2)});
}

/// x / sqrt(mean(x²) + epsilon) * weight.
void convert_rms_norm(NodeContext& n) {
  if (!is_over_last_dim(n)) return;
  n.emit(ir::RmsNorm{n.number("epsilon", 1e-5f)}, {n.in(0), n.in(1)});
}

template <ReduceKind kKind, std::int64_t kAxesInputSince = 18>
OperatorRule reduction(std::string_view name) {
  return {"",
          name,
          1,
          kAnyLater,
          1,
          2,
          {"axes", "keepdims", "noop_with_empty_axes"},
          convert_reduce<kKind, kAxesInputSince>};
}

}  // namespace

std::vector<OperatorRule> product_rules() {
  return {
      {"", "MatMul", 1, kAnyLater, 2, 2, {}, convert_matmul},
      {"", "Gemm", 7, kAnyLater, 2, 3, {"alpha", "beta", "transA", "transB"}, convert_gemm},
      {"", "Softmax", 1, kAnyLater, 1, 1, {"axis"}, convert_softmax},
      reduction<ReduceKind::kSum, 13>("ReduceSum"),
      reduction<ReduceKind::kMean>("ReduceMean"),
      reduction<ReduceKind::kMax>("ReduceMax"),
      reduction<ReduceKind::kMin>("ReduceMin"),
      reduction<ReduceKind::kProd>("ReduceProd"),
      {"",
       "ArgMax",
       1,
       kAnyLater,
       1,
       1,
       {"axis", "keepdims", "select_last_index"},
       convert_arg_max},
      {"",
       "LayerNormalization",
       17,
       kAnyLater,
       2,
       3,
       {"axis", "epsilon", "stash_type"},
       convert_layer_norm},
      {"",
       "RMSNormalization",
       23,
       kAnyLater,
       2,
       2,
       {"axis", "epsilon", "stash_type"},
       convert_rms_norm},
      // In no standard, but exporters write it into the standard domain.
      {"",
       "SimplifiedLayerNormalization",
       1,
       kAnyLater,
       2,
       2,
       {"axis", "epsilon", "stash_type"},
       convert_rms_norm},
  };
}

}  // namespace llmc::importer

// Mixture-of-experts layers of onnxruntime's domain com.microsoft: MoE, and QMoE with quantized
// weights.
//
// Each becomes a softmax of the router's logits, the k largest probabilities, lookups of the chosen
// experts' matrices and a weighted sum, as exporters write such layers themselves
// (passes/fuse_experts.cpp).

#include <limits>

#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::UnaryKind;
using ir::ValueId;

/// Operand numbers of one of the three products; 0 if the operator has no such operand.
struct Slots {
  std::size_t weights, bias, scales = 0, zero_points = 0;
};

/// The matrices of all experts.
struct Matrices {
  ValueId all = ir::kNoValue;      // [E, rows, columns], or [E, columns, rows] if `transposed`
  ir::ConstantPtr bias = nullptr;  // [E, rows]
  std::string bias_name = {};
  std::int64_t experts = 0, rows = 0, columns = 0;
  bool transposed = false;
};

/// The router's choice for each token: k experts and the factors of their results, both [T, k].
struct Routing {
  ValueId ids, factors;
};

std::optional<std::vector<std::int64_t>> constant_dims(NodeContext& n, std::size_t slot) {
  const ir::ConstantPtr data = n.constant(slot);
  if (n.failed()) return std::nullopt;
  if (!data) {
    n.unsupported("weights of experts that are not constant are not supported");
    return std::nullopt;
  }
  if (data->dims().size() == 3 && data->element_count() > 0) return data->dims();
  n.bad("operand " + n.input_name(slot) + " is not [experts, rows, columns]");
  return std::nullopt;
}

void read_bias(NodeContext& n, std::size_t slot, Matrices& m) {
  if (!n.has(slot) || n.failed()) return;
  m.bias = n.constant(slot);
  m.bias_name = n.input_name(slot);
  if (!m.bias) return n.unsupported("a bias of experts that is not constant is not supported");
  if (m.bias->dims() != std::vector<std::int64_t>{m.experts, m.rows})
    n.bad("the bias " + m.bias_name + " is not [" + std::to_string(m.experts) + ", " +
          std::to_string(m.rows) + "]");
}

Matrices float_matrices(NodeContext& n, const Slots& slots, bool transposed) {
  const auto dims = constant_dims(n, slots.weights);
  if (!dims) return {};
  Matrices m{.all = n.in(slots.weights),
             .experts = (*dims)[0],
             .rows = (*dims)[1],
             .columns = (*dims)[2],
             .transposed = transposed};
  if (transposed) std::swap(m.rows, m.columns);
  read_bias(n, slots.bias, m);
  return m;
}

/// Codes [E, rows, columns * bits / 8], scales [E, rows] or [E, rows, blocks], zero points like the
/// scales but packed like the codes.
Matrices quantized_matrices(NodeContext& n, const Slots& slots, int bits, std::int64_t block) {
  const auto dims = constant_dims(n, slots.weights);
  if (!dims) return {};
  // The byte count of the codes cannot overflow; the element count, 8 / bits times as large, can.
  if ((*dims)[2] > std::numeric_limits<std::int64_t>::max() / 2 / (*dims)[0] / (*dims)[1]) {
    n.bad("operand " + n.input_name(slots.weights) + " has more elements than can be addressed");
    return {};
  }
  Matrices m{.experts = (*dims)[0], .rows = (*dims)[1], .columns = (*dims)[2] * (8 / bits)};
  const ir::ConstantPtr matrix = packed_matrix(n, {.bits = bits,
                                                   .rows = m.experts * m.rows,
                                                   .columns = m.columns,
                                                   .block = block > 0 ? block : m.columns,
                                                   .stride = m.columns,
                                                   .codes = slots.weights,
                                                   .scales = slots.scales,
                                                   .zero_points = slots.zero_points});
  if (!matrix) return {};
  m.all = n.make_constant(ir::reshaped(matrix, {m.experts, m.rows, m.columns}),
                          n.input_name(slots.weights));
  read_bias(n, slots.bias, m);
  return m;
}

Routing route(NodeContext& n, std::int64_t experts) {
  const auto width = last_dim(n, n.in(1));
  const std::int64_t k = n.integer("k", 1);
  if (n.failed()) return {};
  if (width && *width != experts) {
    n.bad("the router has " + std::to_string(*width) + " columns for " + std::to_string(experts) +
          " experts");
    return {};
  }
  if (k < 1 || k > experts) {
    n.bad("k is " + std::to_string(k) + " with " + std::to_string(experts) + " experts");
    return {};
  }
  const ValueId logits = reshaped(n, n.in(1), {-1, experts});
  const auto chosen =
      n.make_all(ir::TopK{}, {n.make(ir::Softmax{}, {logits}), n.make_integers({k})});
  if (n.failed()) return {};
  Routing routing{chosen[1], chosen[0]};
  if (n.integer("normalize_routing_weights", 0) != 0)
    routing.factors = binary(n, BinaryKind::kDiv, routing.factors,
                             reduce(n, ir::ReduceKind::kSum, routing.factors, {1}));
  return routing;
}

/// x[T, k, columns] -> [T, k, rows], each row with the matrix of its expert.
ValueId product(NodeContext& n, ValueId x, ValueId ids, const Matrices& m) {
  ValueId matrices = n.make(ir::Gather{0}, {m.all, ids});
  if (m.transposed) matrices = n.make(ir::Transpose{{0, 1, 3, 2}}, {matrices});
  const ValueId column = n.make(ir::MatMul{}, {matrices, unsqueezed(n, x, {3})});
  const ValueId y = n.make(ir::Squeeze{{3}}, {column});
  if (!m.bias || n.failed()) return y;
  const ValueId bias = n.make(ir::Gather{0}, {n.make_constant(m.bias, m.bias_name), ids});
  return binary(n, BinaryKind::kAdd, y, n.cast(bias, ir::ElementType::kF32));
}

/// x sigmoid(alpha x).
ValueId swish(NodeContext& n, ValueId x, double alpha) {
  const ValueId inner = alpha == 1 ? x : with_scalar(n, BinaryKind::kMul, x, alpha);
  return binary(n, BinaryKind::kMul, x, unary(n, UnaryKind::kSigmoid, inner));
}

/// The activation of onnxruntime's "swiglu": swish(min(gate, limit)) * (clamp(up, limit) + beta).
ValueId clamped_swiglu(NodeContext& n, ValueId gate, ValueId up) {
  const float alpha = n.number("activation_alpha", 1), beta = n.number("activation_beta", 0);
  const float limit = n.number("swiglu_limit", std::numeric_limits<float>::infinity());
  if (limit < std::numeric_limits<float>::infinity()) {
    gate = with_scalar(n, BinaryKind::kMin, gate, limit);
    up = clipped(n, up, -limit, limit);
  }
  if (beta != 0) up = with_scalar(n, BinaryKind::kAdd, up, beta);
  return binary(n, BinaryKind::kMul, swish(n, gate, alpha), up);
}

/// Every `step`-th element of the last dim from `begin` to before `end`.
ValueId strided_part(NodeContext& n, ValueId x, std::int64_t begin, std::int64_t end,
                     std::int64_t step) {
  return n.make(ir::Slice{}, {x, n.make_integers({begin}), n.make_integers({end}),
                              n.make_integers({-1}), n.make_integers({step})});
}

/// Activation of the first product h [T, k, rows]; `up` is the third product, or kNoValue.
ValueId activated(NodeContext& n, ValueId h, ValueId up, std::int64_t rows) {
  const std::string kind = n.text("activation_type", "relu");
  const std::int64_t fusion = n.integer("swiglu_fusion", 0);
  if (n.failed()) return ir::kNoValue;
  if (kind == "swiglu") {
    if (up.exists()) return clamped_swiglu(n, h, up);
    const std::int64_t half = rows / 2;
    return fusion == 1
               ? clamped_swiglu(n, strided_part(n, h, 0, rows, 2), strided_part(n, h, 1, rows, 2))
               : clamped_swiglu(n, last_dim_part(n, h, 0, half), last_dim_part(n, h, half, rows));
  }
  for (const char* name : {"activation_alpha", "activation_beta", "swiglu_limit"}) n.ignore(name);
  ValueId y = h;
  if (kind == "relu") {
    y = with_scalar(n, BinaryKind::kMax, h, 0);
  } else if (kind == "silu") {
    y = swish(n, h, 1);
  } else if (kind == "gelu") {
    y = gelu_tanh(n, h);
  } else if (kind != "identity") {
    n.unsupported("activation_type '" + kind + "' is not supported",
                  "relu, gelu, silu, swiglu and identity are");
  }
  return up.exists() ? binary(n, BinaryKind::kMul, y, up) : y;
}

/// Checks that the gate and up rows of swiglu are in two matrices, or in one with the layout that
/// `swiglu_fusion` specifies.
void check_swiglu(NodeContext& n, bool has_third) {
  const std::int64_t fusion = n.integer("swiglu_fusion", 0);
  if (n.text("activation_type", "relu") != "swiglu" || n.failed()) return;
  if (has_third ? fusion != 0 : fusion != 1 && fusion != 2)
    n.unsupported("swiglu_fusion = " + std::to_string(fusion) + " is not supported " +
                      (has_third ? "with" : "without") + " fc3_experts_weights",
                  "0 takes gate and up from two matrices, 1 (in turns) and 2 (halves) from one");
}

/// Returns whether one matrix has the rows of both gate and up.
bool fused(NodeContext& n, bool has_third) {
  return !has_third && n.text("activation_type", "relu") == "swiglu";
}

/// Appends the layer with the matrices of its two or three products.
void emit_layer(NodeContext& n, const Matrices& first, const Matrices& second,
                const std::optional<Matrices>& third) {
  if (n.integer("use_sparse_mixer", 0) != 0)
    return n.unsupported("use_sparse_mixer is not supported");
  check_swiglu(n, third.has_value());
  const ValueId x = n.in(0);
  const auto hidden = last_dim(n, x);
  if (n.failed()) return;
  if (!hidden) return n.unsupported("an input whose last dim is unknown is not supported");
  const std::int64_t inner = fused(n, third.has_value()) ? first.rows / 2 : first.rows;
  const bool fits =
      first.columns == *hidden && second.rows == *hidden && second.columns == inner &&
      second.experts == first.experts && (!fused(n, third.has_value()) || first.rows % 2 == 0) &&
      (!third ||
       (third->experts == first.experts && third->rows == inner && third->columns == *hidden));
  if (!fits)
    return n.bad("the sizes of its weights do not fit each other and rows of " +
                 std::to_string(*hidden) + " elements");
  const Routing routing = route(n, first.experts);
  if (n.failed()) return;
  const std::int64_t k = n.integer("k", 1);
  const ValueId rows = reshaped(n, x, {-1, 1, *hidden});
  const ValueId repeated = n.make(ir::Expand{}, {rows, n.make_integers({1, k, 1})});
  const ValueId up = third ? product(n, repeated, routing.ids, *third) : ir::kNoValue;
  const ValueId h = activated(n, product(n, repeated, routing.ids, first), up, first.rows);
  const ValueId y = product(n, h, routing.ids, second);
  const ValueId weighted = binary(n, BinaryKind::kMul, y, unsqueezed(n, routing.factors, {2}));
  const ValueId sum = reduce(n, ir::ReduceKind::kSum, weighted, {1}, false);
  n.bind(0, n.rank(x) == 2 ? sum : n.make(ir::Reshape{}, {sum, shape_of(n, x)}));
}

/// Weights [E, rows, columns]; before version 1.22 of onnxruntime [E, columns, rows].
void convert_moe(NodeContext& n) {
  constexpr Slots kFirst{2, 3}, kSecond{4, 5}, kThird{6, 7};
  const auto hidden = last_dim(n, n.in(0));
  const auto first = constant_dims(n, kFirst.weights), second = constant_dims(n, kSecond.weights);
  if (!first || !second) return;
  const bool rows_first = hidden == (*first)[2] && hidden == (*second)[1];
  const bool transposed = !rows_first && hidden == (*first)[1] && hidden == (*second)[2];
  std::optional<Matrices> third;
  if (n.has(kThird.weights)) third = float_matrices(n, kThird, transposed);
  emit_layer(n, float_matrices(n, kFirst, transposed), float_matrices(n, kSecond, transposed),
             third);
}

/// Follows the documentation of normalize_routing_weights. onnxruntime 1.23's CPU kernel always
/// normalizes; its CUDA kernel does not.
void convert_qmoe(NodeContext& n) {
  constexpr Slots kFirst{2, 4, 3, 11}, kSecond{5, 7, 6, 12}, kThird{8, 10, 9, 13};
  const std::int64_t bits = n.integer("expert_weight_bits", 4), block = n.integer("block_size", 0);
  if (n.failed()) return;
  if (bits != 4 && bits != 8)
    return n.unsupported(std::to_string(bits) + "-bit weights are not supported",
                         "4 and 8 bits are");
  if (n.has_attribute("block_size") && block < 1) return n.bad("block_size must be positive");
  const auto matrices = [&](const Slots& slots) {
    return quantized_matrices(n, slots, static_cast<int>(bits), block);
  };
  std::optional<Matrices> third;
  if (n.has(kThird.weights)) third = matrices(kThird);
  const Matrices first = matrices(kFirst), second = matrices(kSecond);
  if (!n.failed()) emit_layer(n, first, second, third);
}

}  // namespace

std::vector<OperatorRule> contrib_moe_rules() {
  return {
      contrib_rule(
          "MoE", {5, 8}, convert_moe,
          {"activation_alpha", "activation_beta", "activation_type", "k",
           "normalize_routing_weights", "swiglu_fusion", "swiglu_limit", "use_sparse_mixer"}),
      contrib_rule("QMoE", {7, 14}, convert_qmoe,
                   {"activation_alpha", "activation_beta", "activation_type", "block_size",
                    "expert_weight_bits", "k", "normalize_routing_weights", "swiglu_fusion",
                    "swiglu_limit", "use_sparse_mixer"}),
  };
}

}  // namespace llmc::importer

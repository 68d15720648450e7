// Layer and RMS normalization.

#include "compiler/onnx/lowering.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

using ir::BinaryKind;
using ir::ElementType;
using ir::ReduceKind;
using ir::UnaryKind;
using ir::ValueId;

/// Returns whether `weight` has one element per index of x's last dim, as the IR's operators
/// require.
bool is_per_channel(const NodeContext& n, ValueId weight, ValueId x) {
  return n.rank(weight) == 1 && n.rank(x) > 0 &&
         ir::compatible(n.type(weight).dims[0], n.type(x).dims.back());
}

/// Returns 1 / sqrt(mean(x²) + epsilon), with the mean over the dims from `axis` on.
ValueId inverse_root_mean_square(NodeContext& n, ValueId x, std::int64_t axis, double epsilon) {
  const ValueId square = binary(n, BinaryKind::kMul, x, x);
  const ValueId mean = reduce(n, ReduceKind::kMean, square, axis_range(axis, n.rank(x)));
  const ValueId root = unary(n, UnaryKind::kSqrt, with_scalar(n, BinaryKind::kAdd, mean, epsilon));
  return unary(n, UnaryKind::kReciprocal, root);
}

/// LayerNormalization. Outputs 1 and 2 are the mean and the inverse standard deviation.
void convert_layer_norm(NodeContext& n) {
  const ValueId x = n.in(0), scale = n.in(1), bias = n.optional_in(2);
  const std::int64_t rank = n.rank(x), axis = n.axis("axis", -1, rank);
  const float epsilon = n.number("epsilon", 1e-5f);
  n.ignore("stash_type");  // f32, as everything
  if (n.failed()) return;
  const bool plain = axis == rank - 1 && !n.wants(1) && !n.wants(2) &&
                     n.type(x).element == ElementType::kF32 && is_per_channel(n, scale, x) &&
                     (!bias.exists() || is_per_channel(n, bias, x));
  if (plain) return n.emit(ir::LayerNorm{epsilon}, {x, scale, bias});
  const ValueId mean = reduce(n, ReduceKind::kMean, x, axis_range(axis, rank));
  const ValueId centred = binary(n, BinaryKind::kSub, x, mean);
  const ValueId inverse = inverse_root_mean_square(n, centred, axis, epsilon);
  ValueId y = binary(n, BinaryKind::kMul, binary(n, BinaryKind::kMul, centred, inverse), scale);
  if (bias.exists()) y = binary(n, BinaryKind::kAdd, y, bias);
  n.bind(0, y);
  n.bind(1, mean);
  n.bind(2, inverse);
}

/// x / sqrt(mean(x²) + epsilon) * weight. Output 1 of SimplifiedLayerNormalization is 1 /
/// sqrt(mean(x²) + epsilon).
void convert_rms_norm(NodeContext& n) {
  const ValueId x = n.in(0), scale = n.in(1);
  const std::int64_t rank = n.rank(x), axis = n.axis("axis", -1, rank);
  const float epsilon = n.number("epsilon", 1e-5f);
  n.ignore("stash_type");  // f32, as everything
  if (n.failed()) return;
  if (axis == rank - 1 && !n.wants(1) && n.type(x).element == ElementType::kF32 &&
      is_per_channel(n, scale, x))
    return n.emit(ir::RmsNorm{epsilon}, {x, scale});
  const ValueId inverse = inverse_root_mean_square(n, x, axis, epsilon);
  n.bind(0, binary(n, BinaryKind::kMul, binary(n, BinaryKind::kMul, x, inverse), scale));
  n.bind(1, inverse);
}

}  // namespace

std::vector<OperatorRule> norm_rules() {
  const std::vector<std::string_view> attributes{"axis", "epsilon", "stash_type"};
  return {
      {"", "LayerNormalization", 17, kAnyLater, 2, 3, attributes, convert_layer_norm},
      {"", "RMSNormalization", 23, kAnyLater, 2, 2, attributes, convert_rms_norm},
      // Not a standard operator, but exporters write it in the standard domain.
      {"", "SimplifiedLayerNormalization", 1, kAnyLater, 2, 2, attributes, convert_rms_norm},
  };
}

}  // namespace llmc::importer

// Normalizations.

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

/// x with mean 0 and variance 1 over the dims from an axis on.
struct Standardized {
  ValueId y, mean, inverse;  // inverse: 1 / standard deviation
};
Standardized standardized(NodeContext& n, ValueId x, std::int64_t axis, double epsilon) {
  const ValueId mean = reduce(n, ReduceKind::kMean, x, axis_range(axis, n.rank(x)));
  const ValueId centred = binary(n, BinaryKind::kSub, x, mean);
  const ValueId inverse = inverse_root_mean_square(n, centred, axis, epsilon);
  return {binary(n, BinaryKind::kMul, centred, inverse), mean, inverse};
}

/// LayerNormalization. Outputs 1 and 2 are the mean and the inverse standard deviation.
void convert_layer_norm(NodeContext& n) {
  const ValueId x = n.in(0), scale = n.in(1), bias = n.optional_in(2);
  const std::int64_t rank = n.rank(x), axis = n.axis("axis", -1, rank);
  const float epsilon = n.number("epsilon", 1e-5f);
  n.ignore("stash_type");  // always f32
  if (n.failed()) return;
  const bool plain = axis == rank - 1 && !n.wants(1) && !n.wants(2) &&
                     n.type(x).element == ElementType::kF32 && is_per_channel(n, scale, x) &&
                     (!bias.exists() || is_per_channel(n, bias, x));
  if (plain) return n.emit(ir::LayerNorm{epsilon}, {x, scale, bias});
  const Standardized s = standardized(n, x, axis, epsilon);
  ValueId y = binary(n, BinaryKind::kMul, s.y, scale);
  if (bias.exists()) y = binary(n, BinaryKind::kAdd, y, bias);
  n.bind(0, y);
  n.bind(1, s.mean);
  n.bind(2, s.inverse);
}

/// Returns a parameter with one number for each of the channels of x[N, C, …], in a shape that is
/// broadcast to x. Reports an error if it has another shape.
ValueId by_channel(NodeContext& n, ValueId parameter, ValueId x) {
  if (n.failed()) return ir::kNoValue;
  const std::int64_t rank = n.rank(x);
  if (rank < 2 || n.rank(parameter) != 1 ||
      !ir::compatible(n.type(parameter).dims[0], n.type(x).dims[1]))
    return n.bad("a parameter " + ir::to_string(n.type(parameter)) +
                 " does not have one number for each channel of " + ir::to_string(n.type(x))),
           ir::kNoValue;
  return rank == 2 ? parameter : unsqueezed(n, parameter, axis_range(1, rank - 1));
}

/// Computes x * scale + bias, for each channel.
ValueId scaled_by_channel(NodeContext& n, ValueId x, ValueId scale, ValueId bias) {
  const ValueId product = binary(n, BinaryKind::kMul, x, by_channel(n, scale, x));
  return binary(n, BinaryKind::kAdd, product, by_channel(n, bias, x));
}

/// BatchNormalization: (x - mean) * factor + bias with factor = scale / sqrt(variance + epsilon),
/// as x * factor + (bias - mean * factor).
void convert_batch_norm(NodeContext& n) {
  const ValueId x = n.in(0), scale = n.in(1), bias = n.in(2), mean = n.in(3), variance = n.in(4);
  const float epsilon = n.number("epsilon", 1e-5f);
  n.ignore("momentum");  // for training only
  const bool trains = (n.opset() >= 14 && n.integer("training_mode", 0) != 0) ||
                      (n.opset() < 7 && n.integer("is_test", 0) == 0);
  const bool by_element = n.opset() < 9 && n.integer("spatial", 1) == 0;
  if (n.failed()) return;
  if (trains || n.output_count() > 1) return n.unsupported("training mode is not supported");
  if (by_element) return n.unsupported("statistics of each element are not supported");
  const ValueId root =
      unary(n, UnaryKind::kSqrt,
            with_scalar(n, BinaryKind::kAdd, variance, static_cast<double>(epsilon)));
  const ValueId factor = binary(n, BinaryKind::kDiv, scale, root);
  const ValueId shift =
      binary(n, BinaryKind::kSub, bias, binary(n, BinaryKind::kMul, mean, factor));
  n.bind(0, scaled_by_channel(n, x, factor, shift));
}

void convert_instance_norm(NodeContext& n) {
  const ValueId x = n.in(0), scale = n.in(1), bias = n.in(2);
  const float epsilon = n.number("epsilon", 1e-5f);
  if (n.failed()) return;
  if (n.rank(x) < 3) return n.bad("operand " + ir::to_string(n.type(x)) + " has no spatial dims");
  n.bind(0,
         scaled_by_channel(n, standardized(n, x, 2, static_cast<double>(epsilon)).y, scale, bias));
}

/// GroupNormalization. Scale and bias have one number for each group until version 20, then one for
/// each channel.
void convert_group_norm(NodeContext& n) {
  const ValueId x = n.in(0), scale = n.in(1), bias = n.in(2);
  const float epsilon = n.number("epsilon", 1e-5f);
  const std::int64_t groups = n.integer("num_groups", 0);
  if (n.opset() >= 21) n.ignore("stash_type");  // always f32
  if (n.failed()) return;
  if (n.rank(x) < 2) return n.bad("operand " + ir::to_string(n.type(x)) + " has no channels");
  const auto channels = known_dim(n, x, 1);
  if (!channels) return n.unsupported("an unknown number of channels is not supported");
  if (groups < 1 || *channels % groups != 0)
    return n.bad(std::to_string(*channels) + " channels do not divide into " +
                 std::to_string(groups) + " groups");
  const ValueId rows = reshaped(n, x, {0, groups, -1});
  ValueId y = standardized(n, rows, 2, static_cast<double>(epsilon)).y;
  const bool by_group = n.opset() < 21;
  if (by_group) y = scaled_by_channel(n, y, scale, bias);
  const ValueId whole = n.make(ir::Reshape{}, {y, shape_of(n, x)});
  n.bind(0, by_group ? whole : scaled_by_channel(n, whole, scale, bias));
}

/// x / sqrt(mean(x²) + epsilon) * weight. Output 1 of SimplifiedLayerNormalization is 1 /
/// sqrt(mean(x²) + epsilon).
void convert_rms_norm(NodeContext& n) {
  const ValueId x = n.in(0), scale = n.in(1);
  const std::int64_t rank = n.rank(x), axis = n.axis("axis", -1, rank);
  const float epsilon = n.number("epsilon", 1e-5f);
  n.ignore("stash_type");  // always f32
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
      onnx_rule("LayerNormalization", 17, {2, 3}, convert_layer_norm, attributes),
      onnx_rule("RMSNormalization", 23, 2, convert_rms_norm, attributes),
      onnx_rule("BatchNormalization", 1, 5, convert_batch_norm,
                {"epsilon", "is_test", "momentum", "spatial", "training_mode"}),
      onnx_rule("InstanceNormalization", 1, 3, convert_instance_norm, {"epsilon"}),
      onnx_rule("GroupNormalization", 18, 3, convert_group_norm,
                {"epsilon", "num_groups", "stash_type"}),
      // Not a standard operator, but exporters write it in the standard domain.
      onnx_rule("SimplifiedLayerNormalization", 1, 2, convert_rms_norm, attributes),
  };
}

}  // namespace llmc::importer

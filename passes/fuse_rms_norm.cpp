#include "passes/fuse_rms_norm.h"

#include <cmath>

#include "passes/match.h"

namespace llmc::passes {

namespace {

using ir::BinaryKind;
using ir::UnaryKind;
using ir::ValueId;

struct MeanSquare {
  ValueId x;
  double epsilon = 0;
};

/// Of reduce_mean(x), reduce_sum(x) / n or reduce_sum(x) * (1 / n) over the last axis: x.
ValueId match_mean(const Rewriter& rw, ValueId value) {
  double factor = 1;
  ValueId reduced = value;
  if (const auto quotient = with_scalar(rw, value, BinaryKind::kDiv)) {
    factor = quotient->scalar;
    reduced = quotient->value;
  } else if (const auto product = with_scalar(rw, value, BinaryKind::kMul)) {
    factor = 1 / product->scalar;
    reduced = product->value;
  }
  const auto* op = rw.op<ir::Reduce>(reduced);
  if (!op || !op->keep_dims) return ir::kNoValue;
  const ValueId x = rw.producer(reduced)->inputs[0];
  if (!is_last_axis(op->axes, rw.type(x).rank())) return ir::kNoValue;
  if (op->kind == ir::ReduceKind::kMean) return reduced == value ? x : ir::kNoValue;
  const auto n = last_dim(rw, x);
  const bool mean = op->kind == ir::ReduceKind::kSum && n &&
                    std::abs(factor / static_cast<double>(*n) - 1) <= 1e-6;
  return mean ? x : ir::kNoValue;
}

/// mean(x^2) + epsilon over the last axis.
std::optional<MeanSquare> match_mean_square(const Rewriter& rw, ValueId value) {
  const auto sum = with_scalar(rw, value, BinaryKind::kAdd);
  if (!sum || !(sum->scalar >= 0)) return std::nullopt;
  const ValueId square = match_mean(rw, sum->value);
  if (!square.exists() || !is_f32(rw, square, 1)) return std::nullopt;
  if (const auto power = with_scalar(rw, square, BinaryKind::kPow)) {
    if (power->scalar != 2) return std::nullopt;
    return MeanSquare{power->value, sum->scalar};
  }
  const auto product = binary(rw, square, BinaryKind::kMul);
  if (!product || product->left != product->right) return std::nullopt;
  return MeanSquare{product->left, sum->scalar};
}

/// 1 / sqrt(mean(x^2) + epsilon), however it is written.
std::optional<MeanSquare> match_reciprocal_root(const Rewriter& rw, ValueId value) {
  if (const auto inner = unary(rw, value, UnaryKind::kReciprocal)) {
    const auto root = unary(rw, *inner, UnaryKind::kSqrt);
    return root ? match_mean_square(rw, *root) : std::nullopt;
  }
  if (const auto quotient = binary(rw, value, BinaryKind::kDiv)) {
    const auto root = unary(rw, quotient->right, UnaryKind::kSqrt);
    if (!root || scalar_constant(rw, quotient->left) != 1.0) return std::nullopt;
    return match_mean_square(rw, *root);
  }
  if (const auto power = with_scalar(rw, value, BinaryKind::kPow))
    return power->scalar == -0.5 ? match_mean_square(rw, power->value) : std::nullopt;
  return std::nullopt;
}

/// x / sqrt(mean(x^2) + epsilon); `x` of the result is the operand.
std::optional<MeanSquare> match_normalised(const Rewriter& rw, ValueId value) {
  std::optional<MeanSquare> found;
  if (const auto product = binary(rw, value, BinaryKind::kMul)) {
    found = match_reciprocal_root(rw, product->right);
    ValueId x = product->left;
    if (!found) {
      found = match_reciprocal_root(rw, product->left);
      x = product->right;
    }
    if (!found || found->x != x) return std::nullopt;
  } else if (const auto quotient = binary(rw, value, BinaryKind::kDiv)) {
    const auto root = unary(rw, quotient->right, UnaryKind::kSqrt);
    if (!root) return std::nullopt;
    found = match_mean_square(rw, *root);
    if (!found || found->x != quotient->left) return std::nullopt;
  }
  if (!found || !is_f32(rw, found->x, 1) || !last_dim(rw, found->x)) return std::nullopt;
  return found;
}

/// Whether a transpose leaves rows as they are.
bool keeps_rows(const ir::Transpose* op) {
  return op && !op->perm.empty() && is_last_axis(op->perm.back(), op->perm.size());
}

/// norm(transpose(x)) as transpose(norm(x)), so that projections see their own rows.
void raise(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const auto* transpose = rw.op<ir::Transpose>(node.inputs[0]);
  if (!keeps_rows(transpose)) return;
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = rw.producer(node.inputs[0])->inputs[0];
  const ValueId rows = rw.emit(node.op, std::move(inputs), i);
  rw.replace(node.outputs[0], rw.emit(*transpose, {rows}, i));
}

ValueId emit_norm(Rewriter& rw, float epsilon, ValueId x, ValueId weight, NodeIndex i) {
  const auto* transpose = rw.op<ir::Transpose>(x);
  if (!keeps_rows(transpose)) return rw.emit(ir::RmsNorm{epsilon}, {x, weight}, i);
  const ValueId rows = rw.emit(ir::RmsNorm{epsilon}, {rw.producer(x)->inputs[0], weight}, i);
  return rw.emit(*transpose, {rows}, i);
}

}  // namespace

Result<ir::Graph> fuse_rms_norm(ir::Graph graph, const PassContext&) {
  Rewriter rw(std::move(graph));
  for (NodeIndex i = 0; i < rw.size(); ++i)
    if (rw.alive(i) && std::holds_alternative<ir::RmsNorm>(rw.node(i).op)) raise(rw, i);
  for (NodeIndex i = 0; i < rw.size(); ++i) {
    if (!rw.alive(i) || !std::holds_alternative<ir::Binary>(rw.node(i).op)) continue;
    const ValueId normalised = rw.node(i).outputs[0];
    const auto found = match_normalised(rw, normalised);
    if (!found) continue;
    const float epsilon = static_cast<float>(found->epsilon);
    // Each product with a constant row takes that row as weight.
    const std::vector<NodeIndex> users = rw.users(normalised);
    for (NodeIndex user : users) {
      const ValueId scaled = rw.node(user).outputs[0];
      const auto product = binary(rw, scaled, BinaryKind::kMul);
      if (!product || product->left == product->right) continue;
      const ValueId other = product->left == normalised ? product->right : product->left;
      const ir::ConstantPtr data = row_constant(rw, other, normalised);
      if (!data) continue;
      const ValueId weight =
          data == rw.constant(other) ? other : rw.emit_constant(data, i, rw.name(other));
      rw.replace(scaled, emit_norm(rw, epsilon, found->x, weight, i));
    }
    if (!rw.alive(i)) continue;
    const ValueId ones =
        rw.emit_constant(ir::make_splat(ir::ElementType::kF32, {*last_dim(rw, found->x)}, 1), i);
    rw.replace(normalised, emit_norm(rw, epsilon, found->x, ones, i));
  }
  return std::move(rw).finish();
}

}  // namespace llmc::passes

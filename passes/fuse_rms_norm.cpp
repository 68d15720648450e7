#include <cmath>
#include <limits>

#include "passes/fusions.h"
#include "passes/match.h"

namespace llmc::passes {

namespace {

using ir::BinaryKind;
using ir::UnaryKind;
using ir::ValueId;

/// slope * sum(x^2) + offset, summed over the last axis of x.
struct SquareSum {
  ValueId x;
  double slope = 1, offset = 0;
};

/// gain * sqrt(mean(x^2) + epsilon), or its reciprocal; the mean is over the last axis of x.
struct Root {
  ValueId x;
  double gain = 1, epsilon = 0;
};

/// gain * row * x / sqrt(mean(x^2) + epsilon). If `row` is nullptr, all its elements are 1.
struct Normalized {
  ValueId x;
  double gain = 1, epsilon = 0;
  ir::ConstantPtr row;  // f32[n]
  std::string row_name;
};

/// Maximum number of operators with constants that are applied to a sum of squares.
constexpr int kMaxScalarSteps = 8;

/// Matches x * x or pow(x, 2) and returns x.
ValueId match_square(const Rewriter& rw, ValueId value) {
  if (!is_f32(rw, value, 1)) return ir::kNoValue;
  if (const auto power = with_scalar(rw, value, BinaryKind::kPow))
    return power->scalar == 2 ? power->value : ir::kNoValue;
  const auto product = binary(rw, value, BinaryKind::kMul);
  return product && product->left == product->right ? product->left : ir::kNoValue;
}

/// Matches the sum or mean of x^2 over the last axis. The reduction keeps the axis as a dim of 1,
/// or a view reinserts it.
std::optional<SquareSum> match_reduction(const Rewriter& rw, ValueId value) {
  ValueId reduced = value;
  if (rw.op<ir::Unsqueeze>(value) || rw.op<ir::Reshape>(value))
    reduced = rw.producer(value)->inputs[0];
  const auto* op = rw.op<ir::Reduce>(reduced);
  if (!op || (reduced == value) != op->keep_dims) return std::nullopt;
  const ValueId x = match_square(rw, rw.producer(reduced)->inputs[0]);
  if (!x.exists() || !is_last_axis(op->axes, rw.type(x).rank())) return std::nullopt;
  std::vector<ir::Dim> rows = rw.type(x).dims;
  rows.back() = ir::Dim(1);
  const auto n = last_dim(rw, x);
  if (rw.type(value).dims != rows || !n || *n < 1) return std::nullopt;
  if (op->kind == ir::ReduceKind::kSum) return SquareSum{x, 1, 0};
  if (op->kind == ir::ReduceKind::kMean) return SquareSum{x, 1 / static_cast<double>(*n), 0};
  return std::nullopt;
}

/// Matches a reduction to which scalar factors, divisors and addends are applied.
std::optional<SquareSum> match_square_sum(const Rewriter& rw, ValueId value, int depth = 0) {
  if (const auto found = match_reduction(rw, value)) return found;
  if (depth == kMaxScalarSteps) return std::nullopt;
  return match_affine(rw, value, [&](ValueId x) { return match_square_sum(rw, x, depth + 1); });
}

/// Returns 1 if `factor` differs from 1 only by the rounding of f32, otherwise `factor`.
double nearly_one(double factor) {
  return std::abs(factor - 1) <= 1e-6 ? 1 : factor;
}

/// Returns the root of a sum of squares, expressed with a mean by its gain and epsilon.
std::optional<Root> as_root(const Rewriter& rw, ValueId operand) {
  const auto sum = match_square_sum(rw, operand);
  if (!sum) return std::nullopt;
  const double n = static_cast<double>(*last_dim(rw, sum->x));
  const double slope = nearly_one(sum->slope * n);
  const double epsilon = sum->offset / slope;
  if (!(slope > 0) || !(epsilon >= 0) || !std::isfinite(slope) || !std::isfinite(epsilon))
    return std::nullopt;
  return Root{sum->x, std::sqrt(slope), epsilon};
}

/// Matches sqrt or pow(., 0.5) of a sum of squares, multiplied by scalars.
std::optional<Root> match_root(const Rewriter& rw, ValueId value, int depth = 0) {
  if (const auto operand = unary(rw, value, UnaryKind::kSqrt)) return as_root(rw, *operand);
  if (const auto power = with_scalar(rw, value, BinaryKind::kPow))
    return power->scalar == 0.5 ? as_root(rw, power->value) : std::nullopt;
  if (depth == kMaxScalarSteps) return std::nullopt;
  const auto factor = scalar_factor(rw, value);
  auto root = factor ? match_root(rw, factor->value, depth + 1) : std::nullopt;
  if (root) root->gain *= factor->scalar;
  return root;
}

/// Matches any form of scalar / root. `gain` of the result includes the scalar: the quotient is
/// gain / sqrt(mean + epsilon).
std::optional<Root> match_inverse_root(const Rewriter& rw, ValueId value, int depth = 0) {
  const auto inverse = [](std::optional<Root> root, double scalar) {
    if (root) root->gain = scalar / root->gain;
    return root;
  };
  if (const auto inner = unary(rw, value, UnaryKind::kReciprocal))
    return inverse(match_root(rw, *inner), 1);
  if (const auto power = with_scalar(rw, value, BinaryKind::kPow)) {
    if (power->scalar == -0.5) return inverse(as_root(rw, power->value), 1);
    return power->scalar == -1 ? inverse(match_root(rw, power->value), 1) : std::nullopt;
  }
  if (const auto quotient = binary(rw, value, BinaryKind::kDiv))
    if (const auto scalar = scalar_constant(rw, quotient->left))
      return inverse(match_root(rw, quotient->right), *scalar);
  if (depth == kMaxScalarSteps) return std::nullopt;
  const auto factor = scalar_factor(rw, value);
  auto root = factor ? match_inverse_root(rw, factor->value, depth + 1) : std::nullopt;
  if (root) root->gain *= factor->scalar;
  return root;
}

/// Matches `value` with the x of `root`, or with a product of x and a constant row or scalar.
std::optional<Normalized> match_numerator(const Rewriter& rw, ValueId value, const Root& root) {
  Normalized found{root.x, root.gain, root.epsilon, nullptr, {}};
  if (value == root.x) return found;
  const auto product = binary(rw, value, BinaryKind::kMul);
  if (!product || (product->left != root.x && product->right != root.x)) return std::nullopt;
  const ValueId other = product->left == root.x ? product->right : product->left;
  if (const auto scaled = with_scalar(rw, value, BinaryKind::kMul)) {
    found.gain *= scaled->scalar;
    return found;
  }
  found.row = row_constant(rw, other, root.x);
  found.row_name = rw.name(other);
  return found.row ? std::optional(found) : std::nullopt;
}

/// Matches the quotient of LpNormalization, which is 0 where the root is 0.
std::optional<Normalized> match_guarded(const Rewriter& rw, const ir::Node& where) {
  const auto test = binary(rw, where.inputs[0], BinaryKind::kEqual);
  const auto quotient = binary(rw, where.inputs[2], BinaryKind::kDiv);
  if (!test || !quotient || test->left != quotient->right) return std::nullopt;
  if (scalar_constant(rw, test->right) != 0.0 || scalar_constant(rw, where.inputs[1]) != 0.0)
    return std::nullopt;
  const auto root = match_root(rw, quotient->right);
  if (!root || root->epsilon != 0 || quotient->left != root->x) return std::nullopt;
  // The smallest positive epsilon maps rows of zeros to zeros and does not change other sums.
  constexpr double kLeast = std::numeric_limits<float>::denorm_min();
  return Normalized{root->x, 1 / root->gain, kLeast, nullptr, {}};
}

/// Matches x / sqrt(mean(x^2) + epsilon) with constant factors.
std::optional<Normalized> match_normalized(const Rewriter& rw, ValueId value) {
  std::optional<Normalized> found;
  for (const auto& [x, factor] : either_order(rw, value, BinaryKind::kMul)) {
    const auto root = match_inverse_root(rw, factor);
    if (root && !found) found = match_numerator(rw, x, *root);
  }
  if (const auto quotient = binary(rw, value, BinaryKind::kDiv)) {
    auto root = match_root(rw, quotient->right);
    if (root) root->gain = 1 / root->gain;
    if (root) found = match_numerator(rw, quotient->left, *root);
  } else if (rw.op<ir::Where>(value)) {
    found = match_guarded(rw, *rw.producer(value));
  }
  if (!found || !is_f32(rw, found->x, 1) || rw.type(value) != rw.type(found->x) ||
      !std::isfinite(static_cast<float>(found->gain)))
    return std::nullopt;
  return found;
}

/// Returns whether a transpose keeps the last axis.
bool keeps_rows(const ir::Transpose* op) {
  return op && !op->perm.empty() && is_last_axis(op->perm.back(), op->perm.size());
}

/// Replaces norm(transpose(x)) by transpose(norm(x)), so that the norm reads rows of a projection's
/// result.
void hoist_norm_above_transpose(Rewriter& rw, NodeIndex i) {
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

/// Returns `row` multiplied by the factors of the norm, as one constant.
ir::ConstantPtr scaled_row(const Normalized& norm, const ir::ConstantPtr& row) {
  if (norm.gain == 1 && !norm.row) return row;
  std::vector<double> values = ir::to_doubles(*row);
  const std::vector<double> own = norm.row ? ir::to_doubles(*norm.row) : std::vector<double>();
  std::vector<float> product;
  for (std::size_t i = 0; i < values.size(); ++i)
    product.push_back(static_cast<float>(values[i] * (norm.row ? own[i] : 1.0) * norm.gain));
  return ir::make_f32({static_cast<std::int64_t>(product.size())}, std::move(product));
}

/// Moves scalar factors that follow the norm into it, as long as the intermediate products have no
/// other users. Returns the last product.
ValueId take_scalars(const Rewriter& rw, ValueId value, Normalized& norm) {
  for (int step = 0; step < kMaxScalarSteps && rw.use_count(value) == 1; ++step) {
    if (rw.users(value).empty()) break;
    const ValueId next = rw.node(rw.users(value)[0]).outputs[0];
    const auto factor = scalar_factor(rw, next);
    const double gain = factor ? norm.gain * factor->scalar : 0;
    if (!factor || factor->value != value || !std::isfinite(static_cast<float>(gain))) break;
    norm.gain = gain;
    value = next;
  }
  norm.gain = nearly_one(norm.gain);
  return value;
}

void fuse_normalized(Rewriter& rw, NodeIndex i) {
  const ValueId matched = rw.node(i).outputs[0];
  auto found = match_normalized(rw, matched);
  if (!found) return;
  Normalized norm = *std::move(found);
  const float epsilon = static_cast<float>(norm.epsilon);
  const ValueId normalized = take_scalars(rw, matched, norm);
  // A product with a constant row provides the weight.
  const std::vector<NodeIndex> users = rw.users(normalized);
  for (NodeIndex user : users) {
    const ValueId scaled = rw.node(user).outputs[0];
    const auto product = binary(rw, scaled, BinaryKind::kMul);
    if (!product || product->left == product->right) continue;
    const ValueId other = product->left == normalized ? product->right : product->left;
    const ir::ConstantPtr row = row_constant(rw, other, normalized);
    if (!row) continue;
    const ValueId weight = constant_operand(rw, other, scaled_row(norm, row), i);
    rw.replace(scaled, emit_norm(rw, epsilon, norm.x, weight, i));
  }
  const auto producer = rw.producer_index(normalized);
  if (!producer || !rw.alive(*producer)) return;
  const std::int64_t n = *last_dim(rw, norm.x);
  const bool own_row = norm.row && norm.gain == 1;
  const ir::ConstantPtr data =
      own_row ? norm.row : scaled_row(norm, ir::make_splat(ir::ElementType::kF32, {n}, 1));
  const ValueId weight = rw.emit_constant(data, i, norm.row_name);
  rw.replace(normalized, emit_norm(rw, epsilon, norm.x, weight, i));
}

}  // namespace

Result<ir::Graph> fuse_rms_norm(ir::Graph graph, const PassContext&) {
  Rewriter rw(std::move(graph));
  for (const NodeIndex i : rw.nodes<ir::RmsNorm>()) hoist_norm_above_transpose(rw, i);
  // Match guarded quotients first, because each contains a quotient.
  for (const NodeIndex i : rw.nodes<ir::Where>()) fuse_normalized(rw, i);
  for (const NodeIndex i : rw.nodes<ir::Binary>()) fuse_normalized(rw, i);
  return std::move(rw).finish();
}

}  // namespace llmc::passes

#include <array>
#include <cmath>
#include <numbers>

#include "passes/fusions.h"
#include "passes/match.h"

namespace llmc::passes {

namespace {

using ir::BinaryKind;
using ir::UnaryKind;
using ir::ValueId;

constexpr int kMaxGeluDepth = 16;
constexpr int kMaxPolynomialDepth = 8;  // limits the recursion into both operands
constexpr std::size_t kMaxFactors = 8;

/// Returns whether the numbers are equal except for the rounding of f32 arithmetic.
bool same(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::abs(b);
}

double rounded(double value, ir::ElementType to) {
  return ir::to_doubles(*ir::make_splat(to, {}, value))[0];
}

/// Returns whether `value` is the constant, possibly rounded to a narrower float type.
bool is_constant(double value, double constant) {
  return same(value, constant) || same(value, rounded(constant, ir::ElementType::kF16)) ||
         same(value, rounded(constant, ir::ElementType::kBF16));
}

/// A product as a list of factors: scalar * values[0] * values[1] …
struct Product {
  double scalar = 1;
  std::vector<ValueId> values;
};

/// Appends the factors of `value` to `product`. Treats `whole`, if it exists, as one factor.
/// Returns false if there are too many factors.
bool take_apart(const Rewriter& rw, ValueId value, ValueId whole, Product& product, int depth = 0) {
  if (product.values.size() >= kMaxFactors || depth > kMaxGeluDepth) return false;
  if (value != whole) {
    if (const auto factor = scalar_factor(rw, value)) {
      product.scalar *= factor->scalar;
      return take_apart(rw, factor->value, whole, product, depth + 1);
    }
    if (const auto factors = binary(rw, value, BinaryKind::kMul))
      return take_apart(rw, factors->left, whole, product, depth + 1) &&
             take_apart(rw, factors->right, whole, product, depth + 1);
  }
  product.values.push_back(value);
  return true;
}

/// offset + slope * f(argument), f being erf or tanh.
struct Gate {
  double offset = 0, slope = 1;
  UnaryKind function = UnaryKind::kErf;
  ValueId argument;
};

std::optional<Gate> match_gate(const Rewriter& rw, ValueId value, int depth = 0) {
  if (depth > kMaxGeluDepth) return std::nullopt;
  for (const UnaryKind kind : {UnaryKind::kErf, UnaryKind::kTanh})
    if (const auto argument = unary(rw, value, kind)) return Gate{0, 1, kind, *argument};
  return match_affine(rw, value, [&](ValueId x) { return match_gate(rw, x, depth + 1); });
}

/// Coefficients of 1, x, x^2, x^3.
using Polynomial = std::array<double, 4>;

std::optional<Polynomial> product_of(const Polynomial& a, const Polynomial& b) {
  Polynomial result{};
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 4; ++j) {
      if (a[i] == 0 || b[j] == 0) continue;
      if (i + j > 3) return std::nullopt;
      result[i + j] += a[i] * b[j];
    }
  return result;
}

std::optional<Polynomial> polynomial(const Rewriter& rw, ValueId value, ValueId x, int depth = 0) {
  if (value == x) return Polynomial{0, 1, 0, 0};
  if (depth > kMaxPolynomialDepth) return std::nullopt;
  if (const auto number = scalar_constant(rw, value)) return Polynomial{*number, 0, 0, 0};
  const ir::Node* node = rw.producer(value);
  const auto* bin = ir::op_as<ir::Binary>(node);
  if (!bin) return std::nullopt;
  const auto a = polynomial(rw, node->inputs[0], x, depth + 1);
  if (!a) return std::nullopt;
  if (bin->kind == BinaryKind::kPow) {
    const auto power = scalar_constant(rw, node->inputs[1]);
    if (power == 2.0) return product_of(*a, *a);
    const auto square = power == 3.0 ? product_of(*a, *a) : std::nullopt;
    return square ? product_of(*square, *a) : std::nullopt;
  }
  const auto b = polynomial(rw, node->inputs[1], x, depth + 1);
  if (!b) return std::nullopt;
  if (bin->kind == BinaryKind::kMul) return product_of(*a, *b);
  Polynomial result = *a;
  if (bin->kind == BinaryKind::kDiv) {
    const bool number = (*b)[1] == 0 && (*b)[2] == 0 && (*b)[3] == 0 && (*b)[0] != 0;
    if (!number) return std::nullopt;
    for (double& c : result) c /= (*b)[0];
    return result;
  }
  if (bin->kind != BinaryKind::kAdd && bin->kind != BinaryKind::kSub) return std::nullopt;
  for (std::size_t i = 0; i < 4; ++i)
    result[i] += bin->kind == BinaryKind::kAdd ? (*b)[i] : -(*b)[i];
  return result;
}

struct GeluMatch {
  ValueId x;
  UnaryKind kind = UnaryKind::kGelu;
};

/// Returns whether the argument of erf or tanh is the one that GELU of `x` has.
bool argument_fits(const Rewriter& rw, const Gate& gate, ValueId x) {
  const auto p = polynomial(rw, gate.argument, x);
  if (!p || (*p)[0] != 0 || (*p)[2] != 0) return false;
  if (gate.function == UnaryKind::kErf)
    return (*p)[3] == 0 && (*p)[1] != 0 &&
           (is_constant((*p)[1], 1 / std::numbers::sqrt2) ||
            is_constant(1 / (*p)[1], std::numbers::sqrt2));
  constexpr double kCubic = 0.044715;
  const double root = std::sqrt(2 / std::numbers::pi);
  return is_constant((*p)[1], root) &&
         (is_constant((*p)[3] / (*p)[1], kCubic) || is_constant((*p)[3], root * kCubic));
}

std::optional<GeluMatch> match_gelu(const Rewriter& rw, ValueId value) {
  Product product;
  if (!is_f32(rw, value) || !take_apart(rw, value, ir::kNoValue, product)) return std::nullopt;
  for (const ValueId factor : product.values) {
    const auto gate = match_gate(rw, factor);
    if (!gate) continue;
    // x may itself be a product; the gate's argument determines which factors belong to it.
    std::vector<ValueId> candidates = product.values;
    if (const auto scaled = with_scalar(rw, gate->argument, BinaryKind::kMul))
      candidates.push_back(scaled->value);
    for (const ValueId x : candidates) {
      if (x == factor || !argument_fits(rw, *gate, x)) continue;
      Product rest;
      if (!take_apart(rw, value, x, rest) || rest.values.size() != 2) continue;
      const bool both = (rest.values[0] == x && rest.values[1] == factor) ||
                        (rest.values[1] == x && rest.values[0] == factor);
      if (both && rw.type(x) == rw.type(value) && same(rest.scalar * gate->offset, 0.5) &&
          same(rest.scalar * gate->slope, 0.5))
        return GeluMatch{
            x, gate->function == UnaryKind::kErf ? UnaryKind::kGelu : UnaryKind::kGeluTanh};
    }
  }
  return std::nullopt;
}

/// Matches 1 + exp(-x) and returns x.
std::optional<ValueId> match_logistic(const Rewriter& rw, ValueId value) {
  const auto sum = with_scalar(rw, value, BinaryKind::kAdd);
  const auto power =
      sum && sum->scalar == 1 ? unary(rw, sum->value, UnaryKind::kExp) : std::nullopt;
  if (!power) return std::nullopt;
  if (const auto x = unary(rw, *power, UnaryKind::kNeg)) return x;
  const auto factor = with_scalar(rw, *power, BinaryKind::kMul);
  return factor && factor->scalar == -1 ? std::optional(factor->value) : std::nullopt;
}

bool fuse_sigmoid(Rewriter& rw, NodeIndex i) {
  const ValueId value = rw.node(i).outputs[0];
  ValueId numerator;
  std::optional<ValueId> x;
  if (const auto quotient = binary(rw, value, BinaryKind::kDiv)) {
    x = match_logistic(rw, quotient->right);
    if (scalar_constant(rw, quotient->left) != 1.0) numerator = quotient->left;
  } else if (const auto inner = unary(rw, value, UnaryKind::kReciprocal)) {
    x = match_logistic(rw, *inner);
  }
  if (!x || !is_f32(rw, *x) || rw.type(*x) != rw.type(value)) return false;
  ValueId result = rw.emit(ir::Unary{UnaryKind::kSigmoid}, {*x}, i);
  if (numerator.exists()) result = rw.emit(ir::Binary{BinaryKind::kMul}, {numerator, result}, i);
  rw.replace(value, result);
  return true;
}

}  // namespace

Result<ir::Graph> fuse_gelu(ir::Graph graph, const PassContext&) {
  return rewrite_nodes<ir::Binary, ir::Unary>(std::move(graph), [](Rewriter& rw, NodeIndex i) {
    if (fuse_sigmoid(rw, i)) return;
    if (const auto match = match_gelu(rw, rw.node(i).outputs[0]))
      rw.replace(rw.node(i).outputs[0], rw.emit(ir::Unary{match->kind}, {match->x}, i));
  });
}

}  // namespace llmc::passes

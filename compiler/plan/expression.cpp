#include "compiler/plan/expression.h"

#include <map>
#include <set>

#include "compiler/ir/constant_data.h"

namespace llmc::plan {
namespace {

std::shared_ptr<Expression> make(Expression::Kind kind, ir::ElementType type) {
  auto e = std::make_shared<Expression>();
  e->kind = kind;
  e->type = type;
  return e;
}

/// Returns the value of an integer or boolean literal.
std::optional<std::int64_t> integer(const ExpressionPtr& e) {
  if (e->kind != Expression::Kind::kLiteral || ir::is_float(e->type)) return std::nullopt;
  return ir::element_to_integer(e->type, e->number->bytes().data());
}

/// Returns the other operand if one of them leaves it unchanged (x * 1, x + 0, x and true); nullptr
/// otherwise. Floats keep their identities: -0 + 0 is 0.
ExpressionPtr without_identity(ir::BinaryKind kind, const ExpressionPtr& a,
                               const ExpressionPtr& b) {
  const auto x = integer(a), y = integer(b);
  switch (kind) {
    case ir::BinaryKind::kAdd:
    case ir::BinaryKind::kOr:
      return x == 0 ? b : y == 0 ? a : nullptr;
    case ir::BinaryKind::kSub:
      return y == 0 ? a : nullptr;
    case ir::BinaryKind::kMul:
    case ir::BinaryKind::kAnd:
      return x == 1 ? b : y == 1 ? a : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

ExpressionPtr load(ir::ElementType type, View view) {
  auto e = make(Expression::Kind::kLoad, type);
  e->view = std::move(view);
  return e;
}

ExpressionPtr index_expression(View view) {
  auto e = make(Expression::Kind::kIndex, ir::ElementType::kI64);
  e->view = std::move(view);
  return e;
}

ExpressionPtr literal(ir::ElementType type, double value) {
  return literal(ir::make_constant(type, {}, ir::element_from_double(type, value)));
}

ExpressionPtr literal(ir::ConstantPtr one_element) {
  auto e = make(Expression::Kind::kLiteral, one_element->element());
  e->number = std::move(one_element);
  return e;
}

ExpressionPtr unary(ir::UnaryKind kind, ir::ElementType type, ExpressionPtr x) {
  auto e = make(Expression::Kind::kUnary, type);
  e->unary = kind;
  e->operands = {std::move(x)};
  return e;
}

ExpressionPtr binary(ir::BinaryKind kind, ir::ElementType type, ExpressionPtr a, ExpressionPtr b) {
  if (auto same = without_identity(kind, a, b)) return same;
  auto e = make(Expression::Kind::kBinary, type);
  e->binary = kind;
  e->operands = {std::move(a), std::move(b)};
  return e;
}

ExpressionPtr where(ExpressionPtr condition, ExpressionPtr a, ExpressionPtr b) {
  auto e = make(Expression::Kind::kWhere, a->type);
  e->operands = {std::move(condition), std::move(a), std::move(b)};
  return e;
}

ExpressionPtr cast(ir::ElementType type, ExpressionPtr x) {
  if (x->type == type) return x;
  auto e = make(Expression::Kind::kCast, type);
  e->operands = {std::move(x)};
  return e;
}

ir::ElementType computed_type_of(const Expression& expression) {
  const bool half =
      expression.type == ir::ElementType::kF16 || expression.type == ir::ElementType::kBF16;
  return half ? ir::ElementType::kF32 : expression.type;
}

std::vector<const Expression*> nodes_of(const ExpressionPtr& expression) {
  // Expressions have at most kMaxExpressionNodes nodes (nest_lower.h), so the recursion is shallow.
  std::vector<const Expression*> order;
  std::set<const Expression*> seen;
  const auto visit = [&](const auto& self, const Expression* e) -> void {
    if (!seen.insert(e).second) return;
    for (const ExpressionPtr& operand : e->operands) self(self, operand.get());
    order.push_back(e);
  };
  visit(visit, expression.get());
  return order;
}

std::optional<ExpressionPtr> map_views(const ExpressionPtr& expression,
                                       const std::function<std::optional<View>(const View&)>& f) {
  std::map<const Expression*, ExpressionPtr> made;
  bool complete = true;
  const auto visit = [&](const auto& self, const ExpressionPtr& e) -> ExpressionPtr {
    if (const auto it = made.find(e.get()); it != made.end()) return it->second;
    if (e->kind == Expression::Kind::kLiteral) return made[e.get()] = e;
    auto copy = std::make_shared<Expression>(*e);
    if (e->kind == Expression::Kind::kLoad || e->kind == Expression::Kind::kIndex) {
      if (auto view = f(e->view)) {
        copy->view = *std::move(view);
      } else {
        complete = false;
      }
    }
    for (ExpressionPtr& operand : copy->operands) operand = self(self, operand);
    return made[e.get()] = copy;
  };
  ExpressionPtr result = visit(visit, expression);
  if (!complete) return std::nullopt;
  return result;
}

}  // namespace llmc::plan

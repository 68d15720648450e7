#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "compiler/ir/op.h"
#include "compiler/plan/view.h"

/// Expressions that one loop nest of the emitted source computes for each element: small immutable
/// DAGs over one index space. Because the leaves are views, a reshape, transpose, slice or
/// broadcast of a computed value usually changes only the leaves, and its result is not stored.
namespace llmc::plan {

struct Expression;
using ExpressionPtr = std::shared_ptr<const Expression>;

struct Expression {
  enum class Kind : std::uint8_t {
    kLoad,     // element of a buffer
    kIndex,    // i64: offset + sum i[d] * strides[d] for index i; `view` has no buffer
    kLiteral,  // a constant
    kUnary,
    kBinary,
    kWhere,
    kCast,
  };
  Kind kind = Kind::kLiteral;
  ir::ElementType type = ir::ElementType::kF32;
  View view;               // kLoad, kIndex
  ir::ConstantPtr number;  // kLiteral: one element of `type`
  ir::UnaryKind unary = ir::UnaryKind::kIdentity;
  ir::BinaryKind binary = ir::BinaryKind::kAdd;
  std::vector<ExpressionPtr> operands;
};

ExpressionPtr load(ir::ElementType type, View view);
ExpressionPtr index_expression(View view);
ExpressionPtr literal(ir::ElementType type, double value);
ExpressionPtr literal(ir::ConstantPtr one_element);
ExpressionPtr unary(ir::UnaryKind kind, ir::ElementType type, ExpressionPtr x);
/// Returns one of the operands if the other, an integer or boolean literal, leaves it unchanged.
ExpressionPtr binary(ir::BinaryKind kind, ir::ElementType type, ExpressionPtr a, ExpressionPtr b);
ExpressionPtr where(ExpressionPtr condition, ExpressionPtr a, ExpressionPtr b);
/// Returns `x` if it has the type.
ExpressionPtr cast(ir::ElementType type, ExpressionPtr x);

/// Returns the type in which the value is computed: f32 for 16-bit floats.
ir::ElementType computed_type_of(const Expression& expression);
/// Returns the expression with every view replaced by `f`; shared subexpressions stay shared.
/// Returns nullopt if `f` returns nullopt for any view.
std::optional<ExpressionPtr> map_views(const ExpressionPtr& expression,
                                       const std::function<std::optional<View>(const View&)>& f);
/// Returns each node once, operands before users.
std::vector<const Expression*> nodes_of(const ExpressionPtr& expression);

}  // namespace llmc::plan

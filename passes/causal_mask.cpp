#include "passes/causal_mask.h"

#include <algorithm>

namespace llmc::passes {

namespace {

using ir::BinaryKind;
using ir::Dim;
using ir::ValueId;

/// The integers start, start + 1, … along one axis, counted from the back (0: the last).
struct Index {
  std::size_t axis_from_back = 0;
  Dim start, length;
};

/// One dim that is a scalar's value, known or constant.
std::optional<Dim> known_scalar(const Rewriter& rw, ValueId value) {
  const std::vector<Dim>* known = rw.shape_values().find(value);
  if (known && known->size() == 1) return known->front();
  const auto constant = integer_constant(rw, value);
  if (constant && constant->size() == 1) return Dim(constant->front());
  return std::nullopt;
}

constexpr int kMaxDepth = 8;  // both operands are tried at each step

std::optional<Index> match_index(const Rewriter& rw, ValueId value, int depth = 0) {
  if (depth > kMaxDepth) return std::nullopt;
  const auto& dims = rw.type(value).dims;
  const auto non_one = [](const Dim& d) { return d.constant() != 1; };
  if (std::ranges::count_if(dims, non_one) != 1) return std::nullopt;
  const std::size_t axis =
      static_cast<std::size_t>(std::ranges::find_if(dims, non_one) - dims.begin());
  const auto* bin = rw.op<ir::Binary>(value);
  if (bin && bin->kind == BinaryKind::kAdd) {
    const ir::Node& node = *rw.producer(value);
    for (std::size_t side = 0; side < 2; ++side) {
      auto index = match_index(rw, node.inputs[side], depth + 1);
      const auto offset = known_scalar(rw, node.inputs[1 - side]);
      const auto start = index && offset ? ir::add(index->start, *offset) : std::nullopt;
      if (!start) continue;
      index->start = *start;
      index->axis_from_back = dims.size() - 1 - axis;
      return index;
    }
    return std::nullopt;
  }
  ValueId root = strip_views(rw, value);
  if (const auto* cast = rw.op<ir::Cast>(root); cast && ir::is_integer(cast->to))
    root = strip_views(rw, rw.producer(root)->inputs[0]);
  if (root != value) {
    auto index = match_index(rw, root, depth + 1);
    if (index) index->axis_from_back = dims.size() - 1 - axis;
    return index;
  }
  if (!rw.op<ir::Range>(root)) return std::nullopt;
  const ir::Node& range = *rw.producer(root);
  const auto start = known_scalar(rw, range.inputs[0]);
  const auto limit = known_scalar(rw, range.inputs[1]);
  if (!start || !limit || known_scalar(rw, range.inputs[2]) != Dim(1)) return std::nullopt;
  const auto length = ir::sub(*limit, *start);
  if (!length || !ir::is_integer(rw.type(root).element)) return std::nullopt;
  return Index{0, *start, *length};
}

/// Whether `keys` counts the keys from 0 and `queries` the queries from P + offset.
bool counts(const Index& keys, const Index& queries, const MaskShape& shape, std::int64_t offset) {
  const auto start = ir::add(shape.past, Dim(offset));
  return keys.axis_from_back == 0 && keys.start == Dim(0) && keys.length == shape.keys &&
         queries.axis_from_back == 1 && start && queries.start == *start &&
         queries.length == shape.queries;
}

/// Whether every element of a bool or integer value is known to be other than 0.
bool always_true(const Rewriter& rw, ValueId value, int depth) {
  constexpr std::int64_t kMaxElements = 1 << 16;
  if (depth > 2 * kMaxDepth) return false;
  const ir::Node* node = rw.producer(value);
  const auto element = rw.type(value).element;
  if (!node || (element != ir::ElementType::kBool && !ir::is_integer(element))) return false;
  const auto all_set = [&](const ir::ConstantPtr& data) {
    if (!data || data->element_count() > kMaxElements) return false;
    const auto values = ir::to_integers(*data);
    return values.ok() && std::ranges::all_of(*values, [](auto v) { return v != 0; });
  };
  if (const auto* constant = std::get_if<ir::ConstantOp>(&node->op)) return all_set(constant->data);
  if (const auto* filled = std::get_if<ir::ConstantOfShape>(&node->op))
    return all_set(filled->value);
  const auto* un = std::get_if<ir::Unary>(&node->op);
  // What only picks or repeats elements of its first operand.
  const bool picks =
      std::holds_alternative<ir::Cast>(node->op) || std::holds_alternative<ir::Reshape>(node->op) ||
      std::holds_alternative<ir::Squeeze>(node->op) ||
      std::holds_alternative<ir::Unsqueeze>(node->op) ||
      std::holds_alternative<ir::Gather>(node->op) || std::holds_alternative<ir::Slice>(node->op) ||
      std::holds_alternative<ir::Expand>(node->op) ||
      std::holds_alternative<ir::Transpose>(node->op) ||
      (un && un->kind == ir::UnaryKind::kIdentity);
  return picks && always_true(rw, node->inputs[0], depth + 1);
}

bool is_condition(const Rewriter& rw, ValueId value, const MaskShape& shape, bool negated,
                  int depth) {
  if (depth > kMaxDepth) return false;
  value = strip_views(rw, value);
  const ir::Node* node = rw.producer(value);
  if (!node) return false;
  if (const auto inner = unary(rw, value, ir::UnaryKind::kNot))
    return is_condition(rw, *inner, shape, !negated, depth + 1);
  const auto* bin = std::get_if<ir::Binary>(&node->op);
  if (!bin) return false;
  // Seen: both must hold; hidden: either may.
  if (bin->kind == (negated ? BinaryKind::kOr : BinaryKind::kAnd)) {
    const bool a = is_condition(rw, node->inputs[0], shape, negated, depth + 1);
    const bool b = is_condition(rw, node->inputs[1], shape, negated, depth + 1);
    // Padding masks that importers fill with ones hide nothing.
    return (a && b) || (!negated && a && always_true(rw, node->inputs[1], 0)) ||
           (!negated && b && always_true(rw, node->inputs[0], 0));
  }
  auto a = match_index(rw, node->inputs[0]);
  auto b = match_index(rw, node->inputs[1]);
  if (!a || !b) return false;
  // The index along the last axis is the key's. Written as `key ? query`:
  BinaryKind kind = bin->kind;
  if (a->axis_from_back != 0) {
    std::swap(a, b);
    switch (kind) {
      case BinaryKind::kLess:
        kind = BinaryKind::kGreater;
        break;
      case BinaryKind::kLessOrEqual:
        kind = BinaryKind::kGreaterOrEqual;
        break;
      case BinaryKind::kGreater:
        kind = BinaryKind::kLess;
        break;
      case BinaryKind::kGreaterOrEqual:
        kind = BinaryKind::kLessOrEqual;
        break;
      default:
        return false;
    }
  }
  switch (kind) {
    case BinaryKind::kLessOrEqual:
      return !negated && counts(*a, *b, shape, 0);
    case BinaryKind::kLess:
      return !negated && counts(*a, *b, shape, 1);
    case BinaryKind::kGreater:
      return negated && counts(*a, *b, shape, 0);
    case BinaryKind::kGreaterOrEqual:
      return negated && counts(*a, *b, shape, 1);
    default:
      return false;
  }
}

}  // namespace

bool is_causal_condition(const Rewriter& rw, ValueId value, const MaskShape& shape, bool negated) {
  return is_condition(rw, value, shape, negated, 0);
}

bool is_causal_bias(const Rewriter& rw, ValueId value, const MaskShape& shape) {
  const std::vector<Dim> full{1, 1, shape.queries, shape.keys};
  const ValueId root = strip_views(rw, value);
  if (rw.is_input(root))
    return rw.graph().value(root).name == kMaskInput && is_f32(rw, root) &&
           rw.type(root).dims == full && rw.type(value).dims == full;
  if (!rw.op<ir::Where>(root)) return false;
  const std::vector<ValueId> inputs = rw.producer(root)->inputs;
  const auto yes = scalar_constant(rw, inputs[1]), no = scalar_constant(rw, inputs[2]);
  if (!yes || !no || rw.type(root).rank() < 2) return false;
  constexpr double kHidden = -1e4;
  if (*yes == 0 && *no <= kHidden) return is_causal_condition(rw, inputs[0], shape);
  if (*no == 0 && *yes <= kHidden) return is_causal_condition(rw, inputs[0], shape, true);
  return false;
}

}  // namespace llmc::passes

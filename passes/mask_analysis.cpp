#include "passes/mask_analysis.h"

#include <algorithm>
#include <cmath>

namespace llmc::passes {

using ir::BinaryKind;
using ir::Dim;
using ir::ValueId;
using FoundBand = std::optional<Band>;

template <class Inner>
std::optional<FoundBand> MaskAnalysis::through_view(ValueId value, const ir::Node& node,
                                                    Inner inner) {
  if (!ir::is_view(node.op)) return std::nullopt;
  const auto maps = index_maps(rw_, node, rw_.slot(value));
  const auto& from = rw_.type(node.inputs[0]).dims;
  const std::size_t rank = rw_.type(value).rank();
  if (maps.size() == 2 && maps[1].range->axis + 1 == rank) {
    // A concatenation along the keys. All keys of the first block must be visible. The second block
    // must be a band without a lower bound, whose row 0 is adjacent to the first block.
    const Dim& begin = maps[1].range->begin;
    const auto left = inner(node.inputs[0]);
    const auto right = part_of(inner(node.inputs[1]), Dim(0), *ir::mul(begin, Dim(-1)));
    if (left != Band{} || !right || right->lower || right->chunks) return FoundBand();
    if (!right->upper) return right;
    const auto gap = ir::sub(*right->upper, begin);  // row 0 sees the last key of the first block
    return gap && ir::is_non_negative(*ir::add(*gap, Dim(1))) ? right : FoundBand();
  }
  if (maps.size() != 1) return FoundBand();
  // Row i of the result is row i + start of the operand; column j is column j + start.
  FoundBand band = inner(node.inputs[0]);
  for (std::size_t a = 0; a < from.size(); ++a) {
    const ir::AxisIndex& index = maps[0].axes[a];
    const std::size_t back = from.size() - 1 - a;
    if (from[a] == Dim(1)) continue;
    if (back >= 2) {
      if (std::ranges::any_of(index.terms, [&](const auto& t) { return t.axis + 2 >= rank; }))
        return FoundBand();
      continue;
    }
    if (!index.table.empty() || index.terms.size() != 1 || !index.terms[0].is_linear() ||
        index.terms[0].step != Dim(1) || index.terms[0].axis + 1 + back != rank)
      return FoundBand();
    band = back == 1 ? part_of(band, index.start, Dim(0)) : part_of(band, Dim(0), index.start);
  }
  return band;
}

FoundBand MaskAnalysis::condition(ValueId value, bool wanted) {
  if (indices_.always_true(value)) return wanted ? FoundBand(Band{}) : std::nullopt;
  if (indices_.always_false(value)) return wanted ? std::nullopt : FoundBand(Band{});
  return answer(Question::kCondition, value, wanted);
}

FoundBand MaskAnalysis::answer(Question question, ValueId value, bool wanted) {
  const ir::Node* node = rw_.producer(value);
  if (!node) return std::nullopt;
  return remembered(answers_, {question, value, wanted}, [&] {
    return question == Question::kCondition ? compute_condition(value, *node, wanted)
           : question == Question::kNonZero ? compute_non_zero(value, *node, wanted)
                                            : compute_bias(value, *node);
  });
}

std::optional<FoundBand> MaskAnalysis::of_any_type(ValueId value, const ir::Node& node,
                                                   bool wanted) {
  if (std::holds_alternative<ir::ConstantOp>(node.op)) return stored(value, wanted);
  if (std::holds_alternative<ir::Cast>(node.op)) {
    const ValueId x = node.inputs[0];
    return rw_.type(x).element == ir::ElementType::kBool ? condition(x, wanted)
                                                         : non_zero(x, wanted);
  }
  if (std::holds_alternative<ir::Trilu>(node.op)) return triangle(node, wanted);
  return std::nullopt;
}

FoundBand MaskAnalysis::compute_condition(ValueId value, const ir::Node& node, bool wanted) {
  if (const auto found = through_view(value, node, [&](ValueId x) { return condition(x, wanted); }))
    return *found;
  if (const auto found = of_any_type(value, node, wanted)) return *found;
  if (std::holds_alternative<ir::Where>(node.op)) {
    // (c and a) or (not c and b), where one of a and b is known.
    const ValueId c = node.inputs[0], a = node.inputs[1], b = node.inputs[2];
    const auto both = [&](bool which, ValueId other) -> FoundBand {
      const auto x = condition(c, which), y = condition(other, wanted);
      return x && y ? intersection(*x, *y) : std::nullopt;
    };
    const auto either = [&](bool which, ValueId other) -> FoundBand {
      const auto x = condition(c, which), y = condition(other, wanted);
      return x && y ? union_of(*x, *y) : std::nullopt;
    };
    const auto known = [&](ValueId x, bool is) {
      return is ? indices_.always_true(x) : indices_.always_false(x);
    };
    if (known(b, wanted) && known(a, !wanted)) return condition(c, false);
    if (known(a, wanted) && known(b, !wanted)) return condition(c, true);
    if (known(b, !wanted)) return both(true, a);
    if (known(a, !wanted)) return both(false, b);
    if (known(a, wanted)) return either(true, b);
    if (known(b, wanted)) return either(false, a);
    return std::nullopt;
  }
  if (const auto* un = std::get_if<ir::Unary>(&node.op))
    return un->kind == ir::UnaryKind::kNot ? condition(node.inputs[0], !wanted) : std::nullopt;
  const auto* bin = std::get_if<ir::Binary>(&node.op);
  if (!bin) return std::nullopt;
  if (bin->kind == BinaryKind::kAnd || bin->kind == BinaryKind::kOr) {
    const auto a = condition(node.inputs[0], wanted), b = condition(node.inputs[1], wanted);
    const bool both = (bin->kind == BinaryKind::kAnd) == wanted;
    if (both) return a && b ? intersection(*a, *b) : std::nullopt;
    // An operand that equals `wanted` nowhere does not contribute.
    const auto nowhere = [&](ValueId x) {
      return wanted ? indices_.always_false(x) : indices_.always_true(x);
    };
    if (nowhere(node.inputs[0])) return b;
    if (nowhere(node.inputs[1])) return a;
    return a && b ? union_of(*a, *b) : std::nullopt;
  }
  return comparison(node, bin->kind, wanted);
}

/// Returns the band in which a comparison equals `wanted`. Supports affine operands, chunk numbers,
/// and comparisons of flags and additive masks with constants.
FoundBand MaskAnalysis::comparison(const ir::Node& node, BinaryKind kind, bool wanted) {
  if (kind == BinaryKind::kEqual) {
    if (auto chunks = wanted ? same_chunk(node) : std::nullopt) return chunks;
    // Comparisons of flags with 0 or 1, and of an additive mask with 0 or its hiding number.
    for (std::size_t side = 0; side < 2; ++side) {
      const ValueId x = node.inputs[side];
      const auto number = scalar_constant(rw_, node.inputs[1 - side]);
      if (!number) continue;
      if (*number <= kHidden && !wanted && hides_with(x, *number)) return bias(x);
      // An additive mask plus a small positive number is never 0.
      if (*number == 0 && !wanted) {
        for (const auto& [mask, more] : either_order(rw_, x, BinaryKind::kAdd)) {
          const auto added = indices_.uniform(more);
          const auto small = added ? added->constant() : std::nullopt;
          if (small && *small > 0 && static_cast<double>(*small) < -kHidden && bias(mask))
            return Band{};
        }
      }
      if (*number == 0)
        if (auto found = non_zero(x, !wanted)) return found;
      if (*number == 1 && is_flag(x)) return non_zero(x, wanted);
    }
    return std::nullopt;
  }
  if (kind == BinaryKind::kGreater && scalar_constant(rw_, node.inputs[1]) == 0.0 &&
      rw_.op<ir::Reduce>(node.inputs[0]))
    return non_zero(node.inputs[0], wanted);  // a count of flags
  auto d = indices_.difference(node);
  if (!d) return std::nullopt;
  if (!wanted) {
    switch (kind) {
      case BinaryKind::kLess:
        kind = BinaryKind::kGreaterOrEqual;
        break;
      case BinaryKind::kLessOrEqual:
        kind = BinaryKind::kGreater;
        break;
      case BinaryKind::kGreater:
        kind = BinaryKind::kLessOrEqual;
        break;
      case BinaryKind::kGreaterOrEqual:
        kind = BinaryKind::kLess;
        break;
      default:
        return std::nullopt;
    }
  }
  // Express the comparison as d <= 0.
  std::int64_t more = 0;
  if (kind == BinaryKind::kGreater || kind == BinaryKind::kGreaterOrEqual) {
    d = scaled(*d, Dim(-1));
    more = kind == BinaryKind::kGreater;
  } else if (kind == BinaryKind::kLess || kind == BinaryKind::kLessOrEqual) {
    more = kind == BinaryKind::kLess;
  } else {
    return std::nullopt;
  }
  const auto start = d ? ir::add(d->start, Dim(more)) : std::nullopt;
  if (!start) return std::nullopt;
  d->start = *start;
  const std::size_t rank = d->steps.size();
  if (holds_everywhere(BinaryKind::kLessOrEqual, *d, rw_.type(node.outputs[0]).dims) == true)
    return Band{};
  for (std::size_t a = 0; a + 2 < rank; ++a)
    if (!(d->steps[a] == Dim(0))) return std::nullopt;
  const Dim column = rank > 0 ? d->steps[rank - 1] : Dim(0);
  Dim row = rank > 1 ? d->steps[rank - 2] : Dim(0);
  // With one query, i is 0, so a bound on j is a bound on j - i.
  if (shape_.queries == Dim(1) && row == Dim(0)) row = *ir::mul(column, Dim(-1));
  const auto minus = ir::mul(*start, Dim(-1));
  if (column == Dim(1) && row == Dim(-1) && minus) return Band{std::nullopt, *minus};
  if (column == Dim(-1) && row == Dim(1)) return Band{*start, std::nullopt};
  return std::nullopt;
}

/// Matches equality of the chunk numbers of key and query: a == b, a - b == 0 or |a - b| == 0, with
/// the quotients a and b.
FoundBand MaskAnalysis::same_chunk(const ir::Node& node) {
  ValueId a = node.inputs[0], b = node.inputs[1];
  if (indices_.always_false(a)) std::swap(a, b);
  if (indices_.always_false(b)) {
    const auto d = binary(rw_, unary(rw_, a, ir::UnaryKind::kAbs).value_or(a), BinaryKind::kSub);
    if (!d) return std::nullopt;
    a = d->left;
    b = d->right;
  }
  const std::size_t rank = rw_.type(node.outputs[0]).rank();
  const auto left = indices_.quotient(a), right = indices_.quotient(b);
  if (rank < 2 || !left || !right || left->divisor != right->divisor) return std::nullopt;
  // Returns the start of an index that grows by 1 along the axis `back` from the last one, or not
  // at all if this axis is that of a single query. Returns nullopt for other indices.
  const auto along = [&](const ir::AffineIndex& index, std::size_t back) -> std::optional<Dim> {
    const auto x = ir::aligned(index, rank);
    if (!x) return std::nullopt;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const bool counted = axis + 1 + back == rank && !(back == 1 && shape_.queries == Dim(1));
      if (!(x->steps[axis] == Dim(counted ? 1 : 0))) return std::nullopt;
    }
    return x->start;
  };
  for (const auto& [key, query] : {std::pair(left, right), std::pair(right, left)}) {
    const auto first_key = along(key->numerator, 0), first_query = along(query->numerator, 1);
    if (first_key && first_query)
      return Band{{}, {}, Chunks{key->divisor, *first_query, *first_key}};
  }
  return std::nullopt;
}

/// Returns whether all elements are 0 or 1.
bool MaskAnalysis::is_flag(ValueId value) {
  return remembered(flags_, value, [&] { return compute_is_flag(value); });
}

bool MaskAnalysis::compute_is_flag(ValueId value) {
  const ValueId x = strip_views(rw_, value);
  const ir::Node* node = rw_.producer(x);
  if (!node) return false;
  if (std::holds_alternative<ir::Cast>(node->op))
    return rw_.type(node->inputs[0]).element == ir::ElementType::kBool || is_flag(node->inputs[0]);
  if (ir::is_any<ir::Expand, ir::Slice>(node->op)) return is_flag(node->inputs[0]);
  if (std::holds_alternative<ir::Trilu>(node->op)) return is_flag(node->inputs[0]);
  if (const auto* bin = std::get_if<ir::Binary>(&node->op)) {
    if (bin->kind == BinaryKind::kSub)
      return indices_.uniform(node->inputs[0]) == Dim(1) && is_flag(node->inputs[1]);
    return bin->kind == BinaryKind::kMul && is_flag(node->inputs[0]) && is_flag(node->inputs[1]);
  }
  const auto number = indices_.uniform(x);
  return number && (*number == Dim(0) || *number == Dim(1));
}

FoundBand MaskAnalysis::non_zero(ValueId value, bool wanted) {
  if (indices_.always_true(value)) return wanted ? FoundBand(Band{}) : std::nullopt;
  if (indices_.always_false(value)) return wanted ? std::nullopt : FoundBand(Band{});
  return answer(Question::kNonZero, value, wanted);
}

FoundBand MaskAnalysis::compute_non_zero(ValueId value, const ir::Node& node, bool wanted) {
  if (const auto found = through_view(value, node, [&](ValueId x) { return non_zero(x, wanted); }))
    return *found;
  if (const auto found = of_any_type(value, node, wanted)) return *found;
  if (std::holds_alternative<ir::Where>(node.op)) {
    const auto is_true = [&](ValueId x) {
      return indices_.always_true(x) || number_everywhere(x).value_or(0) != 0;
    };
    const bool first = is_true(node.inputs[1]), second = is_true(node.inputs[2]);
    if (first && indices_.always_false(node.inputs[2])) return condition(node.inputs[0], wanted);
    if (second && indices_.always_false(node.inputs[1])) return condition(node.inputs[0], !wanted);
    return std::nullopt;
  }
  if (const auto* reduce = std::get_if<ir::Reduce>(&node.op)) {
    // A reduction over keys: whether all keys of a row are flagged, or any. If each row of the band
    // has a visible key, the former is never true.
    const bool all = reduce->kind == ir::ReduceKind::kMin || reduce->kind == ir::ReduceKind::kProd;
    const bool any = reduce->kind == ir::ReduceKind::kMax || reduce->kind == ir::ReduceKind::kSum;
    if (!is_last_axis(reduce->axes, rw_.type(node.inputs[0]).rank()) || (!all && !any) ||
        wanted != any)
      return std::nullopt;
    const auto keys = non_zero(node.inputs[0], any);
    return keys && has_key_in_every_row(*keys) ? FoundBand(Band{}) : std::nullopt;
  }
  const auto* bin = std::get_if<ir::Binary>(&node.op);
  if (bin && bin->kind == BinaryKind::kSub && indices_.uniform(node.inputs[0]) == Dim(1) &&
      is_flag(node.inputs[1]))
    return non_zero(node.inputs[1], !wanted);
  if (bin && bin->kind == BinaryKind::kMul) {
    const auto a = non_zero(node.inputs[0], wanted), b = non_zero(node.inputs[1], wanted);
    if (!a || !b) return std::nullopt;
    return wanted ? intersection(*a, *b) : union_of(*a, *b);
  }
  return wanted ? std::nullopt : bias(value);
}

/// Returns the band in which a triangle of a nonzero constant is nonzero, or zero if not `wanted`.
FoundBand MaskAnalysis::triangle(const ir::Node& node, bool wanted) {
  const bool upper = std::get<ir::Trilu>(node.op).upper;
  Dim diagonal(0);
  if (node.operand(1).exists()) {
    const auto known = indices_.uniform(node.inputs[1]);
    if (!known) return std::nullopt;
    diagonal = *known;
  }
  const auto number = number_everywhere(node.inputs[0]);
  if (!indices_.always_true(node.inputs[0]) && !(number && *number != 0)) return std::nullopt;
  // Upper keeps j - i >= diagonal, lower j - i <= diagonal.
  if (upper == wanted) {
    const auto edge = upper ? diagonal : *ir::add(diagonal, Dim(1));
    return Band{edge, std::nullopt};
  }
  const auto edge = upper ? *ir::sub(diagonal, Dim(1)) : diagonal;
  return Band{std::nullopt, edge};
}

FoundBand MaskAnalysis::stored(ValueId value, bool wanted) {
  const ir::ConstantPtr data = rw_.constant(value);
  if (!data || data->dims().size() < 2 || data->element_count() > kMaxStored) return std::nullopt;
  const auto& dims = data->dims();
  const std::int64_t rows = dims[dims.size() - 2], columns = dims.back();
  if (rows * columns != data->element_count()) return std::nullopt;
  std::vector<bool> seen;
  for (const double v : ir::to_doubles(*data)) seen.push_back((v != 0) == wanted);
  return band_of(seen, rows, columns);
}

FoundBand MaskAnalysis::stored_bias(ValueId value) {
  const ir::ConstantPtr data = rw_.constant(value);
  if (!data || data->element_count() > kMaxStored || !ir::is_float(data->element()))
    return std::nullopt;
  const auto& dims = data->dims();
  const std::int64_t rows = dims.size() > 1 ? dims[dims.size() - 2] : 1;
  const std::int64_t columns = dims.empty() ? 1 : dims.back();
  if (rows * columns != data->element_count()) return std::nullopt;
  std::vector<bool> seen;
  for (const double v : ir::to_doubles(*data)) {
    if (v != 0 && !(v <= kHidden)) return std::nullopt;
    seen.push_back(v == 0);
  }
  return band_of(seen, rows, columns);
}

FoundBand MaskAnalysis::bias(ValueId value) {
  if (indices_.always_false(value)) return Band{};
  const ir::Node* node = rw_.producer(value);
  if (!node) {
    const bool mask = rw_.graph().value(value).kind == ir::InputKind::kMask && is_f32(rw_, value) &&
                      rw_.type(value).dims == std::vector<Dim>{1, 1, shape_.queries, shape_.keys};
    return mask ? FoundBand(Band{std::nullopt, shape_.past}) : std::nullopt;
  }
  return answer(Question::kBias, value, true);
}

FoundBand MaskAnalysis::compute_bias(ValueId value, const ir::Node& node) {
  if (const auto found = through_view(value, node, [&](ValueId x) { return bias(x); }))
    return *found;
  if (std::holds_alternative<ir::ConstantOp>(node.op)) return stored_bias(value);
  if (const auto* cast = std::get_if<ir::Cast>(&node.op))
    return ir::is_float(cast->to) ? bias(node.inputs[0]) : std::nullopt;
  const auto hides = [&](ValueId x) {
    const auto number = number_everywhere(x);
    return number && *number <= kHidden;
  };
  if (std::holds_alternative<ir::Where>(node.op)) {
    const ValueId c = node.inputs[0], a = node.inputs[1], b = node.inputs[2];
    for (const bool second : {true, false}) {
      if (!hides(second ? b : a)) continue;
      const auto where = condition(c, second), rest = bias(second ? a : b);
      return where && rest ? intersection(*where, *rest) : std::nullopt;
    }
    for (const bool first : {true, false}) {
      if (!indices_.always_false(first ? a : b)) continue;
      const auto where = condition(c, first), rest = bias(first ? b : a);
      return where && rest ? union_of(*where, *rest) : std::nullopt;
    }
    return std::nullopt;
  }
  if (std::holds_alternative<ir::Trilu>(node.op))
    return hides(node.inputs[0]) ? triangle(node, false) : std::nullopt;
  const auto* bin = std::get_if<ir::Binary>(&node.op);
  if (!bin) return std::nullopt;
  const ValueId left = node.inputs[0], right = node.inputs[1];
  if (bin->kind == BinaryKind::kMul) {
    for (const auto& [x, factor] : {std::pair(left, right), std::pair(right, left)}) {
      const auto number = number_everywhere(factor);
      if (number && std::isfinite(*number) && *number <= kHidden && is_flag(x))
        return non_zero(x, false);
      if (number) continue;
      // The product of a mask and flags is negative only where both hide the key.
      const auto rest = bias(x);
      if (!rest || !is_flag(factor)) continue;
      if (non_zero(factor, true) == Band{}) return rest;
      if (const auto off = non_zero(factor, false)) return union_of(*rest, *off);
    }
    return std::nullopt;
  }
  if (bin->kind == BinaryKind::kMax)
    return hides(right) ? bias(left) : hides(left) ? bias(right) : std::nullopt;
  if (bin->kind != BinaryKind::kAdd && bin->kind != BinaryKind::kMin) return std::nullopt;
  const auto a = bias(left), b = bias(right);
  return a && b ? intersection(*a, *b) : std::nullopt;
}

}  // namespace llmc::passes

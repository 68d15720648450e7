#include "compiler/ir/shape_value.h"

#include <algorithm>

#include "compiler/ir/index_map.h"
#include "compiler/ir/op_info.h"
#include "compiler/ir/shape_rules.h"

namespace llmc::ir {
namespace {

/// Maximum number of known elements per tensor. Shapes have few elements; the limit excludes index
/// tables and lists of positions.
constexpr std::size_t kMaxElements = 256;

using Elements = std::vector<Dim>;

/// Returns whether at most one dim is not 1. Elementwise operators treat such tensors as vectors or
/// scalars, whatever their rank.
bool is_vector_like(const TensorType& type) {
  return std::count(type.dims.begin(), type.dims.end(), Dim(1)) + 1 >=
         static_cast<std::ptrdiff_t>(type.rank());
}

/// Computes the known elements of output `slot` of one node from the known elements of its
/// operands.
class Recorder {
 public:
  Recorder(const Graph& graph, const ShapeValues& known, const Node& node, std::size_t slot)
      : graph_(graph), known_(known), node_(node), slot_(slot) {}

  std::optional<Elements> operator()(const ConstantOp& op) const {
    if (!op.data) return std::nullopt;
    const auto& data = *op.data;
    if (is_float(data.element()) || data.element_count() > static_cast<std::int64_t>(kMaxElements))
      return std::nullopt;
    const auto integers = to_integers(data);
    if (!integers.ok()) return std::nullopt;
    // A u64 of 2^63 or more is not representable as a Dim.
    if (data.element() == ElementType::kU64 &&
        std::any_of(integers->begin(), integers->end(), [](std::int64_t i) { return i < 0; }))
      return std::nullopt;
    return Elements(integers->begin(), integers->end());
  }
  std::optional<Elements> operator()(const Cast& op) const {
    // A conversion to a narrow type may change a symbolic value, so only types that hold any size
    // keep it.
    const bool wide = op.to == ElementType::kI64 || op.to == ElementType::kI32;
    if (!wide || is_float(input_type(0).element)) return std::nullopt;
    return copy(0);
  }
  std::optional<Elements> operator()(const Reshape&) const { return copy(0); }
  std::optional<Elements> operator()(const Squeeze&) const { return copy(0); }
  std::optional<Elements> operator()(const Unsqueeze&) const { return copy(0); }

  std::optional<Elements> operator()(const Shape& op) const {
    const auto& dims = input_type(0).dims;
    const auto [begin, end] = shape_range(op, dims.size());
    return Elements(dims.begin() + static_cast<std::ptrdiff_t>(begin),
                    dims.begin() + static_cast<std::ptrdiff_t>(end));
  }
  std::optional<Elements> operator()(const ConstantOfShape& op) const {
    const auto size = output_size();
    if (!size || !op.value || is_float(op.value->element())) return std::nullopt;
    const auto value = to_integers(*op.value);
    if (!value.ok() || value->size() != 1) return std::nullopt;
    return Elements(*size, value->front());
  }
  std::optional<Elements> operator()(const Range&) const {
    const auto start = numbers(0), limit = numbers(1), delta = numbers(2);
    const auto size = output_size();
    if (!start || !limit || !delta || !size || start->empty() || delta->empty())
      return std::nullopt;
    Elements out;
    for (std::size_t i = 0; i < *size; ++i) {
      const auto offset = mul(delta->front(), Dim(static_cast<std::int64_t>(i)));
      const auto value = offset ? add(start->front(), *offset) : std::nullopt;
      if (!value) return std::nullopt;
      out.push_back(*value);
    }
    return out;
  }
  std::optional<Elements> operator()(const Unary& op) const {
    const auto* x = input(0);
    if (!x) return std::nullopt;
    Elements out;
    for (const Dim& dim : *x) {
      const auto result = unary(op.kind, dim);
      if (!result) return std::nullopt;
      out.push_back(*result);
    }
    return out;
  }
  std::optional<Elements> operator()(const Binary& op) const {
    const auto* a = input(0);
    const auto* b = input(1);
    const auto size = broadcast_size();
    if (!size || !fits(a, *size) || !fits(b, *size)) return std::nullopt;
    Elements out;
    for (std::size_t i = 0; i < *size; ++i) {
      const auto result = binary(op.kind, at(*a, i), at(*b, i));
      if (!result) return std::nullopt;
      out.push_back(*result);
    }
    return out;
  }
  std::optional<Elements> operator()(const Where&) const {
    const auto condition = numbers(0);
    const auto* a = input(1);
    const auto* b = input(2);
    const auto size = broadcast_size();
    if (!size || !condition || !fits(&*condition, *size) || !fits(a, *size) || !fits(b, *size))
      return std::nullopt;
    Elements out;
    for (std::size_t i = 0; i < *size; ++i)
      out.push_back(at(*condition, i) ? at(*a, i) : at(*b, i));
    return out;
  }
  std::optional<Elements> operator()(const Reduce& op) const {
    const auto* x = input(0);
    if (!x || x->empty() || output_size() != std::size_t{1}) return std::nullopt;
    std::optional<Dim> result = x->front();
    for (std::size_t i = 1; i < x->size() && result; ++i) {
      const Dim& next = (*x)[i];
      switch (op.kind) {
        case ReduceKind::kSum:
          result = add(*result, next);
          break;
        case ReduceKind::kProd:
          result = mul(*result, next);
          break;
        case ReduceKind::kMax:
          result = binary(BinaryKind::kMax, *result, next);
          break;
        case ReduceKind::kMin:
          result = binary(BinaryKind::kMin, *result, next);
          break;
        case ReduceKind::kMean:
          return std::nullopt;
      }
    }
    return result ? std::optional(Elements{*result}) : std::nullopt;
  }
  /// Handles views; other operators do not compute shapes.
  template <class T>
  std::optional<Elements> operator()(const T&) const {
    const auto count = output_size();
    const auto dims =
        count ? as_numbers(graph_.value(node_.outputs[slot_]).type.dims) : std::nullopt;
    if (!dims) return std::nullopt;
    IndexOperands read;
    read.elements = [this](ValueId value) {
      const auto* x = known_.find(value);
      return x ? std::optional(*x) : std::nullopt;
    };
    const auto maps = index_maps(graph_, node_, slot_, read);
    std::vector<std::vector<std::int64_t>> operand_dims;
    for (const IndexMap& map : maps) {
      auto sizes = as_numbers(input_type(map.operand).dims);
      if (!sizes || !input(map.operand)) return std::nullopt;
      operand_dims.push_back(std::move(*sizes));
    }
    const auto sources = element_sources(maps, operand_dims, *dims);
    if (!sources || maps.empty()) return std::nullopt;
    Elements out;
    for (const ElementSource& source : *sources)
      out.push_back((*input(source.operand))[static_cast<std::size_t>(source.element)]);
    return out;
  }

 private:
  const TensorType& input_type(std::size_t i) const { return graph_.value(node_.inputs[i]).type; }
  const Elements* input(std::size_t i) const { return known_.find(node_.inputs[i]); }
  bool has(std::size_t i) const { return node_.operand(i).exists(); }
  std::optional<Elements> copy(std::size_t i) const {
    const auto* x = input(i);
    return x ? std::optional(*x) : std::nullopt;
  }
  /// Returns the elements of an operand if all are numbers, otherwise nullopt.
  std::optional<std::vector<std::int64_t>> numbers(std::size_t i) const {
    const auto* x = input(i);
    return x ? as_numbers(*x) : std::nullopt;
  }
  /// Returns the number of elements of the result; nullopt if it is symbolic or exceeds
  /// kMaxElements.
  std::optional<std::size_t> output_size() const {
    const auto count = element_count(graph_.value(node_.outputs[slot_]).type);
    if (!count || *count > static_cast<std::int64_t>(kMaxElements)) return std::nullopt;
    return static_cast<std::size_t>(*count);
  }
  /// Like output_size(), but also returns nullopt if the result is not vector-like. For operators
  /// that broadcast their operands.
  std::optional<std::size_t> broadcast_size() const {
    return is_vector_like(graph_.value(node_.outputs[slot_]).type) ? output_size() : std::nullopt;
  }
  /// Returns whether an operand has one element or as many as the result.
  template <class T>
  static bool fits(const std::vector<T>* x, std::size_t size) {
    return x && (x->size() == 1 || x->size() == size);
  }
  /// Returns element i; a single element is broadcast.
  template <class T>
  static T at(const std::vector<T>& x, std::size_t i) {
    return x.size() == 1 ? x.front() : x[i];
  }

  std::optional<Dim> unary(UnaryKind kind, const Dim& x) const {
    if (kind == UnaryKind::kIdentity) return x;
    if (kind == UnaryKind::kNeg) return mul(x, Dim(-1));
    if (kind == UnaryKind::kNot && x.is_constant()) return Dim(x == Dim(0) ? 1 : 0);
    if (kind == UnaryKind::kAbs && known_.is_non_negative(x)) return x;
    return std::nullopt;
  }

  std::optional<Dim> binary(BinaryKind kind, const Dim& a, const Dim& b) const {
    const auto truth = [](std::optional<bool> known) -> std::optional<Dim> {
      return known ? std::optional(Dim(*known ? 1 : 0)) : std::nullopt;
    };
    const auto difference = sub(a, b);
    // Decide a >= b and a <= b if they hold for all values of the symbols.
    const bool not_less = difference && known_.is_non_negative(*difference);
    const auto gap = difference ? mul(*difference, Dim(-1)) : std::nullopt;
    const bool not_greater = gap && known_.is_non_negative(*gap);
    const auto is_positive = [&](const std::optional<Dim>& dim) {
      const auto rest = dim ? sub(*dim, Dim(1)) : std::nullopt;
      return rest && known_.is_non_negative(*rest);
    };
    const bool differ = is_positive(difference) || is_positive(gap);
    const auto equal = differ ? std::optional(false) : known_equal(a, b);
    switch (kind) {
      case BinaryKind::kAdd:
        return add(a, b);
      case BinaryKind::kSub:
        return difference;
      case BinaryKind::kMul:
        return mul(a, b);
      case BinaryKind::kDiv:
        return divide(a, b);
      case BinaryKind::kMod:
        return remainder(a, b.constant().value_or(0));
      case BinaryKind::kMin:
        if (not_less) return b;
        if (not_greater) return a;
        return std::nullopt;
      case BinaryKind::kMax:
        if (not_less) return a;
        if (not_greater) return b;
        return std::nullopt;
      case BinaryKind::kEqual:
        return truth(equal);
      case BinaryKind::kLess:
        return not_less ? truth(false) : (not_greater && differ) ? truth(true) : std::nullopt;
      case BinaryKind::kGreater:
        return not_greater ? truth(false) : (not_less && differ) ? truth(true) : std::nullopt;
      case BinaryKind::kLessOrEqual:
        return not_greater ? truth(true) : (not_less && differ) ? truth(false) : std::nullopt;
      case BinaryKind::kGreaterOrEqual:
        return not_less ? truth(true) : (not_greater && differ) ? truth(false) : std::nullopt;
      case BinaryKind::kAnd:
      case BinaryKind::kOr:
      case BinaryKind::kXor: {
        if (!a.is_constant() || !b.is_constant()) return std::nullopt;
        const bool x = a != Dim(0), y = b != Dim(0);
        const bool result = kind == BinaryKind::kAnd  ? x && y
                            : kind == BinaryKind::kOr ? x || y
                                                      : x != y;
        return Dim(result ? 1 : 0);
      }
      case BinaryKind::kPow:
        return std::nullopt;
    }
    return std::nullopt;
  }

  /// Returns a / b, truncated; nullopt if the quotient has symbols and may be negative.
  std::optional<Dim> divide(const Dim& a, const Dim& b) const {
    if (a.is_constant() && b.is_constant()) {
      if (b == Dim(0) || (b == Dim(-1) && a == Dim(INT64_MIN))) return std::nullopt;
      return Dim(*a.constant() / *b.constant());
    }
    if (const auto exact = div_exact(a, b)) return exact;
    const std::int64_t divisor = b.constant().value_or(0);
    return divisor > 0 && known_.is_non_negative(a) ? div_floor(a, divisor) : std::nullopt;
  }

  /// Returns a - divisor * floor(a / divisor); nullopt unless the divisor is positive.
  static std::optional<Dim> remainder(const Dim& a, std::int64_t divisor) {
    const auto quotient = divisor > 0 ? div_floor(a, divisor) : std::nullopt;
    const auto whole = quotient ? mul(*quotient, Dim(divisor)) : std::nullopt;
    return whole ? sub(a, *whole) : std::nullopt;
  }

  const Graph& graph_;
  const ShapeValues& known_;
  const Node& node_;
  std::size_t slot_;
};

}  // namespace

const std::vector<Dim>* ShapeValues::find(ValueId value) const {
  const auto it = known_.find(value);
  return it == known_.end() ? nullptr : &it->second;
}

bool ShapeValues::is_non_negative(const Dim& dim) const {
  return ir::is_non_negative(dim) || std::ranges::any_of(sizes_, [&](const Dim& size) {
           const auto rest = sub(dim, size);
           return rest && ir::is_non_negative(*rest);
         });
}

void ShapeValues::record(const Graph& graph, const Node& node) {
  if (operand_problem(node))
    return;  // an invalid graph, which verify reports; here the value is unknown
  if (std::holds_alternative<Shape>(node.op))
    for (const Dim& dim : graph.value(node.inputs[0]).type.dims)
      if (!is_non_negative(dim)) sizes_.push_back(dim);
  // Unlike Dims, arithmetic in narrow types wraps.
  const bool computes = is_any<Unary, Binary, Reduce>(node.op);
  for (std::size_t slot = 0; slot < node.outputs.size(); ++slot) {
    const auto& type = graph.value(node.outputs[slot]).type;
    const bool wide = type.element == ElementType::kI64 || type.element == ElementType::kI32 ||
                      type.element == ElementType::kBool;
    if (is_float(type.element) || (computes && !wide)) continue;
    auto elements = std::visit(Recorder(graph, *this, node, slot), node.op);
    if (elements && elements->size() <= kMaxElements) set(node.outputs[slot], std::move(*elements));
  }
}

ShapeValues ShapeValues::of(const Graph& graph) {
  ShapeValues known;
  for (const Node& node : graph.nodes()) known.record(graph, node);
  return known;
}

bool is_non_negative(const Dim& dim) {
  return dim.constant_part() >= 0 && std::all_of(dim.terms().begin(), dim.terms().end(),
                                                 [](const auto& term) { return term.second >= 0; });
}

bool is_negative(const Dim& dim) {
  if (dim.constant_part() > 0) return false;
  if (dim.terms().empty()) return dim.constant_part() < 0;
  return std::all_of(dim.terms().begin(), dim.terms().end(),
                     [](const auto& term) { return term.second <= 0; });
}

std::optional<bool> known_equal(const Dim& a, const Dim& b) {
  const auto difference = sub(a, b);
  if (!difference) return std::nullopt;
  if (difference->is_constant()) return *difference == Dim(0);
  // The dims differ if the difference is positive, or negative, for all values of the symbols.
  const auto opposite = mul(*difference, Dim(-1));
  if (is_non_negative(*difference) && difference->constant_part() > 0) return false;
  if (opposite && is_non_negative(*opposite) && opposite->constant_part() > 0) return false;
  return std::nullopt;
}

}  // namespace llmc::ir

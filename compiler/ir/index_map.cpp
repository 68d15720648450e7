#include "compiler/ir/index_map.h"

#include <algorithm>
#include <numeric>

#include "compiler/ir/shape_rules.h"
#include "compiler/ir/shape_value.h"

namespace llmc::ir {
namespace {

/// Whether T is an operator with a rule below. Unary kIdentity is handled separately.
template <class T>
constexpr bool has_rule =
    (std::is_same_v<T, Reshape> || std::is_same_v<T, Transpose> || std::is_same_v<T, Squeeze> ||
     std::is_same_v<T, Unsqueeze> || std::is_same_v<T, Expand> || std::is_same_v<T, Tile> ||
     std::is_same_v<T, Slice> || std::is_same_v<T, Split> || std::is_same_v<T, Concat> ||
     std::is_same_v<T, Gather>);

/// Returns a / b if the division is exact for all values of the symbols, otherwise nullopt.
std::optional<Dim> quotient(const Dim& a, const Dim& b) {
  if (a == b) return Dim(1);
  if (b.is_constant() || a.terms().empty()) return div_exact(a, b);
  // b is symbolic, so the quotient must be a number: the ratio of the coefficients of any symbol.
  const auto& [symbol, coefficient] = *b.terms().begin();
  const auto same = a.terms().find(symbol);
  if (same == a.terms().end() || same->second % coefficient != 0) return std::nullopt;
  const Dim ratio(same->second / coefficient);
  return mul(b, ratio) == a ? std::optional(ratio) : std::nullopt;
}

/// Adds more * step to `start`. Returns false on overflow.
bool add_product(Dim& start, const Dim& more, const Dim& step) {
  const auto offset = mul(more, step);
  const auto result = offset ? add(start, *offset) : std::nullopt;
  if (result) start = *result;
  return result.has_value();
}

/// Returns `index` counted from the front of an axis of `size` elements; nullopt if its sign is
/// unknown.
std::optional<Dim> from_front(const Dim& index, const Dim& size) {
  const auto result = is_negative(index) ? add(index, size) : std::optional(index);
  return result && is_non_negative(*result) ? result : std::nullopt;
}

/// Index maps of output `slot` of one node, by operator.
class MapRules {
 public:
  using Maps = std::vector<IndexMap>;

  MapRules(const Graph& graph, const Node& node, std::size_t slot, const IndexOperands& operands)
      : graph_(graph), node_(node), slot_(slot), operands_(operands) {}

  Maps operator()(const Unary& op) const {
    return op.kind == UnaryKind::kIdentity ? Maps{identity_map(from().size())} : Maps{};
  }
  Maps operator()(const Transpose& op) const { return {transpose_map(op.perm, from().size())}; }
  Maps operator()(const Expand&) const {
    // Shapes may also be broadcast to the operand. The map only needs the result dims.
    return from().size() <= to().size() ? Maps{expand_map(from(), to())} : Maps{};
  }
  Maps operator()(const Reshape&) const { return known(reshape_map(from(), to())); }
  Maps operator()(const Squeeze& op) const { return {inserted(op.axes, from().size(), true)}; }
  Maps operator()(const Unsqueeze& op) const { return {inserted(op.axes, to().size(), false)}; }

  Maps operator()(const Tile&) const {
    IndexMap map = expand_map(from(), to());
    for (std::size_t a = 0; a < map.axes.size(); ++a)
      if (from()[a] != to()[a])
        for (IndexTerm& term : map.axes[a].terms) term.modulus = from()[a];
    return {map};
  }
  Maps operator()(const Split& op) const {
    IndexMap map = identity_map(from().size());
    const auto axis = normalize_axis(op.axis, from().size());
    if (!axis || slot_ >= op.sizes.size()) return {};
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < slot_; ++i)
      if (__builtin_add_overflow(begin, op.sizes[i], &begin)) return {};
    map.axes[*axis].start = begin;
    return {map};
  }
  Maps operator()(const Concat& op) const {
    const auto axis = normalize_axis(op.axis, to().size());
    if (!axis) return {};
    Maps maps;
    Dim begin = 0;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      IndexMap map = identity_map(to().size());
      const Dim& size = type(i).dims[*axis];
      const auto minus = mul(begin, Dim(-1)), end = add(begin, size);
      if (!minus || !end) return {};
      map.operand = i;
      map.axes[*axis].start = *minus;
      map.range = IndexMap::Range{*axis, begin, size};
      begin = *end;
      maps.push_back(std::move(map));
    }
    return maps;
  }
  Maps operator()(const Slice&) const {
    const auto starts = elements(1);
    if (!starts) return {};
    std::vector<std::int64_t> axes(starts->size()), steps(starts->size(), 1);
    std::iota(axes.begin(), axes.end(), 0);
    for (auto [i, list] : {std::pair(std::size_t{3}, &axes), std::pair(std::size_t{4}, &steps)}) {
      if (!has(i)) continue;
      const auto given = elements(i);
      auto read = given ? as_numbers(*given) : std::nullopt;
      if (!read || read->size() != starts->size()) return {};
      *list = std::move(*read);
    }
    IndexMap map = identity_map(from().size());
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const auto axis = normalize_axis(axes[i], from().size());
      if (!axis || steps[i] == 0) return {};
      AxisIndex& index = map.axes[*axis];
      const Dim &size = from()[*axis], &start = (*starts)[i];
      if (size.is_constant() && start.is_constant()) {
        // The end does not change the clamped start.
        index.start = slice_range(*size.constant(), *start.constant(),
                                  steps[i] > 0 ? INT64_MAX : INT64_MIN, steps[i])
                          .start;
      } else {
        const auto front = steps[i] > 0 ? from_front(start, size) : std::nullopt;
        if (!front) return {};
        index.start = *front;
      }
      index.terms[0].step = steps[i];
    }
    return {map};
  }
  Maps operator()(const Gather& op) const {
    const auto axis = normalize_axis(op.axis, from().size());
    const std::size_t rank = type(1).rank();
    auto index = axis ? gathered(from()[*axis], *axis) : std::nullopt;
    if (!index) return {};
    IndexMap map;
    for (std::size_t a = 0; a < from().size(); ++a)
      map.axes.push_back(a == *axis ? *index : AxisIndex{0, {{a < *axis ? a : a + rank - 1}}, {}});
    return {map};
  }
  /// Other operators compute new values or read positions at run time, so they have no map.
  template <class T>
  Maps operator()(const T&) const {
    static_assert(!has_rule<T>);
    return {};
  }

 private:
  const TensorType& type(std::size_t i) const { return graph_.value(node_.inputs[i]).type; }
  const std::vector<Dim>& from() const { return type(0).dims; }
  const std::vector<Dim>& to() const { return graph_.value(node_.outputs[slot_]).type.dims; }
  bool has(std::size_t i) const { return node_.operand(i).exists(); }
  std::optional<std::vector<Dim>> elements(std::size_t i) const {
    return operands_.elements ? operands_.elements(node_.inputs[i]) : std::nullopt;
  }
  static Maps known(std::optional<IndexMap> map) { return map ? Maps{std::move(*map)} : Maps{}; }

  /// Returns the map between two shapes of which one has additional dims of 1 at `axes`: the
  /// operand if `removed`, else the result.
  static IndexMap inserted(const std::vector<std::int64_t>& axes, std::size_t rank, bool removed) {
    IndexMap map;
    std::size_t other = 0;
    for (std::size_t a = 0; a < rank; ++a) {
      const bool one = std::ranges::find(axes, static_cast<std::int64_t>(a)) != axes.end();
      if (!one) map.axes.push_back({0, {{removed ? other++ : a}}, {}});
      if (one && removed) map.axes.emplace_back();
    }
    return map;
  }

  /// Returns the gathered index along an axis of `size` elements, as a function of the result's
  /// axes from `first` on.
  std::optional<AxisIndex> gathered(const Dim& size, std::size_t first) const {
    if (operands_.affine)
      if (auto affine = operands_.affine(node_.inputs[1])) {
        if (affine->is_uniform()) {
          const auto front = from_front(affine->start, size);
          if (!front) return std::nullopt;
          affine->start = *front;
        }
        const bool negative =
            !is_non_negative(affine->start) || !std::ranges::all_of(affine->steps, is_non_negative);
        return negative ? std::nullopt : std::optional(affine_axis(*affine, first));
      }
    auto list = elements(1);
    if (!list) return std::nullopt;
    for (Dim& index : *list) {
      const auto front = from_front(index, size);
      const auto room = front ? sub(size, *front) : std::nullopt;
      if (!front || (room && room->is_constant() && *room->constant() <= 0)) return std::nullopt;
      index = *front;
    }
    if (list->size() == 1)
      return affine_axis({list->front(), std::vector<Dim>(type(1).rank(), 0)}, first);
    const auto values = as_numbers(*list), dims = as_numbers(type(1).dims);
    if (!values || !dims || values->empty()) return std::nullopt;
    if (const auto affine = fit_index(*values, *dims)) return affine_axis(*affine, first);
    AxisIndex index;
    // Indices 0 0 1 1 …: each element is repeated equally often.
    const auto repeats = std::ranges::count(*values, 0);
    const auto is_repeat = [repeats, i = std::int64_t{0}](std::int64_t v) mutable {
      return v == i++ / repeats;
    };
    if (dims->size() == 1 && repeats > 0 && std::ranges::all_of(*values, is_repeat)) {
      index.terms.push_back({first, 1, repeats});
      return index;
    }
    std::int64_t stride = 1;
    for (std::size_t k = dims->size(); k-- > 0; stride *= (*dims)[k])
      index.terms.push_back({first + k, stride});
    index.table = *values;
    return index;
  }

  static AxisIndex affine_axis(const AffineIndex& affine, std::size_t first) {
    AxisIndex index{affine.start, {}, {}};
    for (std::size_t k = 0; k < affine.steps.size(); ++k)
      if (!is_zero(affine.steps[k])) index.terms.push_back({first + k, affine.steps[k]});
    return index;
  }

  const Graph& graph_;
  const Node& node_;
  std::size_t slot_;
  const IndexOperands& operands_;
};

}  // namespace

std::optional<std::size_t> AxisIndex::result_axis() const {
  const bool linear = table.empty() && start == Dim(0) && terms.size() == 1 &&
                      terms[0].is_linear() && terms[0].step == Dim(1);
  return linear ? std::optional(terms[0].axis) : std::nullopt;
}

std::optional<Dim> AxisIndex::fixed(const std::vector<Dim>& dims) const {
  const bool same = table.empty() && std::ranges::all_of(terms, [&](const IndexTerm& t) {
                      return is_zero(t.step) || dims[t.axis] == Dim(1);
                    });
  return same ? std::optional(start) : std::nullopt;
}

bool is_reshape(const Op& op) {
  return is_any<Reshape, Squeeze, Unsqueeze>(op);
}

bool is_view(const Op& op) {
  return std::visit(
      [](const auto& o) {
        using T = std::decay_t<decltype(o)>;
        if constexpr (std::is_same_v<T, Unary>)
          return o.kind == UnaryKind::kIdentity;
        else
          return has_rule<T>;
      },
      op);
}

std::vector<IndexMap> index_maps(const Graph& graph, const Node& node, std::size_t slot,
                                 const IndexOperands& operands) {
  return std::visit(MapRules(graph, node, slot, operands), node.op);
}

IndexMap identity_map(std::size_t rank) {
  IndexMap map;
  for (std::size_t a = 0; a < rank; ++a) map.axes.push_back({0, {{a}}, {}});
  return map;
}

IndexMap transpose_map(const std::vector<std::int64_t>& perm, std::size_t rank) {
  IndexMap map = identity_map(rank);
  for (std::size_t k = 0; k < rank; ++k)
    map.axes[perm.empty() ? rank - 1 - k : static_cast<std::size_t>(perm[k])].terms[0].axis = k;
  return map;
}

IndexMap expand_map(const std::vector<Dim>& from, const std::vector<Dim>& to) {
  IndexMap map;
  for (std::size_t a = 0; a < from.size(); ++a) {
    const std::size_t k = a + to.size() - from.size();
    map.axes.emplace_back();
    if (from[a] != Dim(1) || to[k] == Dim(1)) map.axes[a].terms.push_back({k});
  }
  return map;
}

std::optional<IndexMap> reshape_map(const std::vector<Dim>& from, const std::vector<Dim>& to) {
  IndexMap map;
  map.axes.resize(from.size());
  if (std::ranges::any_of(from, is_zero)) return map;  // the operand has no elements
  // Split off digits from the outermost: `left` is the remaining size of result axis k, `rest` that
  // of operand axis a. Dims of 1 at the same position correspond to each other.
  std::size_t k = 0;
  Dim left = to.empty() ? Dim(1) : to[0];
  const auto next = [&] {
    ++k;
    left = k < to.size() ? to[k] : Dim(1);
  };
  for (std::size_t a = 0; a < from.size(); ++a) {
    Dim rest = from[a];
    if (rest == Dim(1) && k < to.size() && to[k] == Dim(1)) {
      map.axes[a].terms.push_back({k});
      next();
    }
    while (rest != Dim(1)) {
      while (k < to.size() && left == Dim(1)) next();
      if (k == to.size()) return std::nullopt;
      Dim digit = left;
      auto step = quotient(rest, left), divisor = std::optional(Dim(1));
      if (!step) {
        digit = rest;
        step = Dim(1);
        divisor = quotient(left, rest);
      }
      if (!divisor) return std::nullopt;
      map.axes[a].terms.push_back(
          {k, *step, *divisor, left == to[k] ? std::nullopt : std::optional(digit)});
      rest = *step;
      left = *divisor;
      if (left == Dim(1)) next();
    }
  }
  while (k < to.size() && left == Dim(1)) next();
  return k == to.size() ? std::optional(map) : std::nullopt;
}

std::optional<AffineIndex> compose(const AffineIndex& x, const IndexMap& map,
                                   std::size_t result_rank) {
  AffineIndex result{x.start, std::vector<Dim>(result_rank, 0)};
  // Digits of each result axis, outermost first.
  std::vector<std::vector<IndexTerm>> digits(result_rank);
  for (std::size_t a = 0; a < map.axes.size(); ++a) {
    const AxisIndex& index = map.axes[a];
    const Dim& step = x.steps[a];
    if (!index.table.empty() && step != Dim(0)) return std::nullopt;
    if (!add_product(result.start, index.start, step)) return std::nullopt;
    for (IndexTerm term : index.terms) {
      if (term.is_linear()) {
        if (!add_product(result.steps[term.axis], term.step, step)) return std::nullopt;
        continue;
      }
      const auto product = mul(term.step, step);
      if (!product) return std::nullopt;
      term.step = *product;
      digits[term.axis].push_back(std::move(term));
    }
  }
  for (std::size_t k = 0; k < result_rank; ++k) {
    auto& all = digits[k];
    if (std::ranges::all_of(all, [](const IndexTerm& d) { return d.step == Dim(0); })) continue;
    // The digits d0, d1, … of an integer n, from the innermost: if step = divisor * (step of d0)
    // for each, their sum is (step of d0) * n.
    std::optional<Dim> divisor = Dim(1);
    for (auto digit = all.rbegin(); digit != all.rend(); ++digit) {
      if (!divisor || digit->divisor != *divisor ||
          mul(all.back().step, digit->divisor) != digit->step)
        return std::nullopt;
      divisor = digit->modulus ? mul(*divisor, *digit->modulus) : std::nullopt;
    }
    if (divisor) return std::nullopt;  // the outermost digit is missing
    if (!add_product(result.steps[k], all.back().step, 1)) return std::nullopt;
  }
  return result;
}

std::optional<IndexMap> inner_axes(const IndexMap& map, std::size_t operand_lead,
                                   std::size_t result_lead) {
  IndexMap inner{map.operand, {}, map.range};
  for (std::size_t a = 0; a < map.axes.size(); ++a) {
    AxisIndex index = map.axes[a];
    for (IndexTerm& term : index.terms) {
      if ((term.axis < result_lead) != (a < operand_lead)) return std::nullopt;
      term.axis -= a < operand_lead ? 0 : result_lead;
    }
    if (a >= operand_lead) inner.axes.push_back(std::move(index));
  }
  if (inner.range && inner.range->axis < result_lead) return std::nullopt;
  if (inner.range) inner.range->axis -= result_lead;
  return inner;
}

std::optional<std::vector<ElementSource>> element_sources(
    const std::vector<IndexMap>& maps, const std::vector<std::vector<std::int64_t>>& operand_dims,
    const std::vector<std::int64_t>& dims) {
  const std::int64_t count =
      std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<std::int64_t>());
  std::vector<ElementSource> sources(static_cast<std::size_t>(count), {0, -1});
  bool known = true;
  const auto number = [&](const Dim& dim) {
    known = known && dim.is_constant();
    return dim.constant().value_or(1);
  };
  std::vector<std::int64_t> at(dims.size());
  for (std::size_t m = 0; m < maps.size(); ++m) {
    const IndexMap& map = maps[m];
    for (std::int64_t flat = 0; flat < count && known; ++flat) {
      for (std::size_t k = dims.size(), rest = static_cast<std::size_t>(flat); k-- > 0;) {
        at[k] = static_cast<std::int64_t>(rest) % dims[k];
        rest /= static_cast<std::size_t>(dims[k]);
      }
      if (map.range) {
        const std::int64_t from_begin = at[map.range->axis] - number(map.range->begin);
        if (from_begin < 0 || from_begin >= number(map.range->size)) continue;
      }
      std::int64_t element = 0;
      for (std::size_t a = 0; a < map.axes.size(); ++a) {
        const AxisIndex& axis = map.axes[a];
        std::int64_t index = number(axis.start);
        for (const IndexTerm& term : axis.terms) {
          std::int64_t digit = at[term.axis] / number(term.divisor);
          if (term.modulus) digit %= number(*term.modulus);
          index += digit * number(term.step);
        }
        if (!axis.table.empty()) index = axis.table[static_cast<std::size_t>(index)];
        if (!known || index < 0 || index >= operand_dims[m][a]) return std::nullopt;
        element = element * operand_dims[m][a] + index;
      }
      sources[static_cast<std::size_t>(flat)] = {map.operand, element};
    }
  }
  const bool complete =
      std::ranges::all_of(sources, [](const ElementSource& s) { return s.element >= 0; });
  return known && complete ? std::optional(std::move(sources)) : std::nullopt;
}

}  // namespace llmc::ir

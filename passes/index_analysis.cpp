#include "passes/index_analysis.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace llmc::passes {

using ir::AffineIndex;
using ir::BinaryKind;
using ir::Dim;
using ir::ValueId;
using Found = std::optional<AffineIndex>;

namespace {

constexpr int kMaxIndexDepth = 200;
constexpr std::int64_t kMaxConstant = 1 << 16;

}  // namespace

/// Computes the affine function of a node's result, with one rule for each operator.
class IndexRules {
 public:
  IndexRules(IndexAnalysis& analysis, const ir::Node& node, ValueId value)
      : analysis_(analysis), rw_(analysis.rw_), node_(node), value_(value) {}

  Found operator()(const ir::ConstantOp& op) const {
    if (op.data->element_count() > kMaxConstant) return std::nullopt;
    std::vector<std::int64_t> values;
    if (ir::is_float(op.data->element())) {
      for (const double v : ir::to_doubles(*op.data)) {
        if (!(std::abs(v) < 0x1p53) || v != std::floor(v)) return std::nullopt;
        values.push_back(static_cast<std::int64_t>(v));
      }
    } else {
      auto read = ir::to_integers(*op.data);
      if (!read.ok()) return std::nullopt;
      values = std::move(read).value();
    }
    return ir::fit_index(values, op.data->dims());
  }
  Found operator()(const ir::ConstantOfShape& op) const {
    const auto value = ir::to_doubles(*op.value);
    if (value.size() != 1 || !(std::abs(value[0]) < 0x1p53) || value[0] != std::floor(value[0]))
      return std::nullopt;
    return ir::uniform_index(Dim(static_cast<std::int64_t>(value[0])), rank());
  }
  Found operator()(const ir::Range&) const {
    const auto start = number(0), delta = number(2);
    if (!start || !delta) return std::nullopt;
    return AffineIndex{*start, {*delta}};
  }
  Found operator()(const ir::Cast& op) const {
    const auto* x = get(0);
    if (!x) return std::nullopt;
    if (op.to == ir::ElementType::kBool && type(0).element != ir::ElementType::kBool) {
      if (!x->is_uniform()) return std::nullopt;
      const auto zero = ir::known_equal(x->start, Dim(0));
      return zero ? Found(ir::uniform_index(Dim(*zero ? 0 : 1), rank())) : std::nullopt;
    }
    return *x;
  }
  Found operator()(const ir::Unary& op) const {
    const auto* x = get(0);
    if (!x) return std::nullopt;
    if (op.kind == ir::UnaryKind::kIdentity) return *x;
    if (op.kind == ir::UnaryKind::kNeg) return scaled(*x, Dim(-1));
    if (op.kind == ir::UnaryKind::kNot && x->is_uniform() && x->start.is_constant())
      return ir::uniform_index(Dim(ir::is_zero(x->start) ? 1 : 0), rank());
    return std::nullopt;
  }
  Found operator()(const ir::GatherNd&) const { return same_everywhere(0); }
  Found operator()(const ir::GatherElements&) const { return same_everywhere(0); }
  Found operator()(const ir::Where&) const {
    const auto* condition = get(0);
    if (!condition || !condition->is_uniform() || !condition->start.is_constant())
      return std::nullopt;
    const auto* kept = get(ir::is_zero(condition->start) ? 2 : 1);
    return kept ? aligned(*kept, rank()) : std::nullopt;
  }
  Found operator()(const ir::Reduce& op) const {
    const auto* x = get(0);
    if (!x) return std::nullopt;
    const auto& dims = type(0).dims;
    std::vector<std::size_t> axes;
    for (const std::int64_t axis : op.axes)
      if (const auto front = ir::normalize_axis(axis, dims.size())) axes.push_back(*front);
    if (op.axes.empty()) {
      axes.resize(dims.size());
      std::iota(axes.begin(), axes.end(), std::size_t{0});
    }
    AffineIndex result{x->start, {}};
    for (std::size_t a = 0; a < dims.size(); ++a) {
      const bool reduced = std::ranges::find(axes, a) != axes.end();
      if (reduced && !ir::reduce_index(op.kind, dims[a], x->steps[a], result.start))
        return std::nullopt;
      if (!reduced || op.keep_dims) result.steps.push_back(reduced ? Dim(0) : x->steps[a]);
    }
    return result;
  }
  Found operator()(const ir::CumSum& op) const {
    const auto* x = get(0);
    const auto axis = ir::normalize_axis(op.axis, rank());
    if (!x || !x->is_uniform() || !axis || op.reverse) return std::nullopt;
    AffineIndex result = *x;
    if (op.exclusive) result.start = Dim(0);
    result.steps[*axis] = x->start;
    return result;
  }
  Found operator()(const ir::Binary& op) const {
    if (op.kind == BinaryKind::kAnd || op.kind == BinaryKind::kOr || op.kind == BinaryKind::kXor)
      return logic(op.kind);
    const auto* left = get(0);
    const auto* right = get(1);
    const auto a = left ? aligned(*left, rank()) : std::nullopt;
    const auto b = right ? aligned(*right, rank()) : std::nullopt;
    if (!a || !b) return std::nullopt;
    switch (op.kind) {
      case BinaryKind::kAdd:
        return sum(*a, *b);
      case BinaryKind::kSub:
        return difference(*a, *b);
      case BinaryKind::kMul:
        if (a->is_uniform()) return scaled(*b, a->start);
        return b->is_uniform() ? scaled(*a, b->start) : std::nullopt;
      case BinaryKind::kMin:
      case BinaryKind::kMax: {
        const auto d = difference(*a, *b);
        const auto& dims = rw_.type(value_).dims;
        const bool more = d && holds_everywhere(BinaryKind::kGreaterOrEqual, *d, dims) == true;
        const bool less = d && holds_everywhere(BinaryKind::kLessOrEqual, *d, dims) == true;
        if (!more && !less) return std::nullopt;
        return more == (op.kind == BinaryKind::kMax) ? a : b;
      }
      default: {
        const auto d = difference(*a, *b);
        const auto truth = d ? holds_everywhere(op.kind, *d, rw_.type(value_).dims) : std::nullopt;
        return truth ? Found(ir::uniform_index(Dim(*truth ? 1 : 0), rank())) : std::nullopt;
      }
    }
  }
  /// Handles views. Other operators have no rule; ShapeValues handles shape arithmetic.
  template <class T>
  Found operator()(const T&) const {
    if (!ir::is_view(node_.op)) return std::nullopt;
    const auto same = std::is_same_v<T, ir::Concat> ? std::nullopt : same_everywhere(0);
    return same ? same : view();
  }

  std::size_t rank() const { return rw_.type(value_).rank(); }

 private:
  const ir::TensorType& type(std::size_t i) const { return rw_.type(node_.inputs[i]); }
  const AffineIndex* get(std::size_t i) const {
    return i < node_.inputs.size() && node_.inputs[i].exists() ? analysis_.find(node_.inputs[i])
                                                               : nullptr;
  }
  /// Returns operand i if it is a number, or a tensor of equal numbers.
  std::optional<Dim> number(std::size_t i) const {
    const auto* x = get(i);
    return x && x->is_uniform() ? std::optional(x->start) : std::nullopt;
  }
  Found same_everywhere(std::size_t i) const {
    const auto* x = get(i);
    return x && x->is_uniform() ? Found(ir::uniform_index(x->start, rank())) : std::nullopt;
  }
  /// Composes the operand's affine function with the index map of a view.
  Found view() const {
    ir::IndexOperands read;
    read.elements = [this](ValueId list) -> std::optional<std::vector<Dim>> {
      if (auto known = known_integers(rw_, list)) return known;
      const auto one =
          ir::element_count(rw_.type(list)) == 1 ? analysis_.uniform(list) : std::nullopt;
      return one ? std::optional(std::vector<Dim>{*one}) : std::nullopt;
    };
    read.affine = [this](ValueId indices) {
      const auto* found = analysis_.find(indices);
      return found ? Found(*found) : std::nullopt;
    };
    Found result;
    for (const auto& map : ir::index_maps(rw_.graph(), node_, rw_.slot(value_), read)) {
      const auto* x = get(map.operand);
      const auto part = x ? ir::compose(*x, map, rank()) : std::nullopt;
      // All operands of a Concat must give the same function.
      if (!part || (result && *result != *part)) return std::nullopt;
      result = part;
    }
    return result;
  }
  Found logic(BinaryKind kind) const {
    const auto truth = [&](std::size_t i) -> std::optional<bool> {
      const auto* x = get(i);
      if (!x || !x->is_uniform() || !x->start.is_constant()) return std::nullopt;
      return !ir::is_zero(x->start);
    };
    const auto a = truth(0), b = truth(1);
    if (kind == BinaryKind::kXor)
      return a && b ? Found(ir::uniform_index(Dim(*a != *b ? 1 : 0), rank())) : std::nullopt;
    const bool deciding = kind == BinaryKind::kOr;
    if (a == deciding || b == deciding) return ir::uniform_index(Dim(deciding ? 1 : 0), rank());
    if (a && b) return ir::uniform_index(Dim(deciding ? 0 : 1), rank());
    return std::nullopt;
  }

  IndexAnalysis& analysis_;
  const Rewriter& rw_;
  const ir::Node& node_;
  ValueId value_;
};

const AffineIndex* IndexAnalysis::find(ValueId value) {
  if (!value.exists()) return nullptr;
  if (const auto it = known_.find(value); it != known_.end())
    return it->second ? &*it->second : nullptr;
  Found found;
  const ir::TensorType& type = rw_.type(value);
  const ir::Node* node = rw_.producer(value);
  const auto* shape = rw_.shape_values().find(value);
  if (!node) {
    if (rw_.graph().value(value).kind == ir::InputKind::kPositions && type.rank() > 0) {
      found = ir::uniform_index(Dim::symbol("past"), type.rank());
      found->steps.back() = Dim(type.dims.back() == Dim(1) ? 0 : 1);
    }
  } else if (shape && shape->size() == 1) {
    found = ir::uniform_index(shape->front(), type.rank());
  } else if (depth_ < kMaxIndexDepth) {
    ++depth_;
    found = std::visit(IndexRules(*this, *node, value), node->op);
    --depth_;
  }
  if (found)
    for (std::size_t a = 0; a < found->steps.size(); ++a)
      if (type.dims[a] == Dim(1)) found->steps[a] = Dim(0);
  const auto& kept = known_[value] = std::move(found);
  return kept ? &*kept : nullptr;
}

std::optional<Dim> IndexAnalysis::uniform(ValueId value) {
  const auto* x = find(value);
  return x && x->is_uniform() ? std::optional(x->start) : std::nullopt;
}

bool IndexAnalysis::always_true(ValueId value) {
  const auto known = uniform(value);
  return known && ir::known_equal(*known, Dim(0)) == false;
}

bool IndexAnalysis::always_false(ValueId value) {
  return uniform(value) == Dim(0);
}

std::optional<AffineIndex> IndexAnalysis::difference(const ir::Node& node) {
  const auto* a = find(node.inputs[0]);
  const auto* b = find(node.inputs[1]);
  if (!a || !b) return std::nullopt;
  const std::size_t rank = rw_.type(node.outputs[0]).rank();
  const auto left = aligned(*a, rank), right = aligned(*b, rank);
  return left && right ? ir::difference(*left, *right) : std::nullopt;
}

std::optional<IndexQuotient> IndexAnalysis::quotient(ValueId value) {
  constexpr int kMaxSteps = 32;
  std::vector<const ir::Node*> above;  // operators between the division and `value`
  for (int step = 0; step < kMaxSteps; ++step) {
    const ir::Node* node = rw_.producer(value);
    if (!node) return std::nullopt;
    ValueId x = node->inputs.empty() ? ir::kNoValue : node->inputs[0];
    const auto* bin = std::get_if<ir::Binary>(&node->op);
    const auto* un = std::get_if<ir::Unary>(&node->op);
    if (un && un->kind == ir::UnaryKind::kFloor) {
      if (const auto division = binary(rw_, x, BinaryKind::kDiv)) {
        bin = rw_.op<ir::Binary>(x);
        node = rw_.producer(x);
      }
    } else if (bin && bin->kind == BinaryKind::kDiv && !ir::is_integer(rw_.type(value).element)) {
      return std::nullopt;
    }
    if (bin && bin->kind == BinaryKind::kDiv) {
      const auto* numerator = find(node->inputs[0]);
      const auto divisor = uniform(node->inputs[1]);
      const auto number = divisor ? divisor->constant() : std::nullopt;
      const ir::TensorType& type = rw_.type(node->outputs[0]);
      const auto aligned = numerator ? ir::aligned(*numerator, type.rank()) : std::nullopt;
      if (!aligned || !number || *number <= 0 ||
          holds_everywhere(BinaryKind::kGreaterOrEqual, *aligned, type.dims) != true)
        return std::nullopt;
      std::optional<AffineIndex> result = aligned;
      for (std::size_t i = above.size(); result && i-- > 0;) {
        const ir::Node& outer = *above[i];
        const std::size_t rank = rw_.type(outer.outputs[0]).rank();
        if (!ir::is_view(outer.op)) {
          result = ir::aligned(*result, rank);
          continue;
        }
        const auto maps = index_maps(rw_, outer);
        result = maps.size() == 1 ? ir::compose(*result, maps[0], rank) : std::nullopt;
      }
      return result ? std::optional(IndexQuotient{*result, *number}) : std::nullopt;
    }
    if (bin && bin->kind == BinaryKind::kAdd && always_false(x)) {
      x = node->inputs[1];
    } else if (bin) {
      const bool adds = bin->kind == BinaryKind::kAdd || bin->kind == BinaryKind::kSub;
      if (!adds || !always_false(node->inputs[1])) return std::nullopt;
    } else if (const auto* cast = std::get_if<ir::Cast>(&node->op)) {
      if (ir::element_bytes(cast->to) < sizeof(std::int32_t)) return std::nullopt;  // may wrap
    } else if (!ir::is_view(node->op) || node->outputs.size() != 1) {
      return std::nullopt;
    }
    above.push_back(node);
    value = x;
  }
  return std::nullopt;
}

Found IndexAnalysis::component(ValueId tuples, std::size_t c, const Dim& size) {
  const std::vector<Dim>& dims = rw_.type(tuples).dims;
  const auto count = static_cast<std::size_t>(*dims.back().constant());
  const ir::ConstantPtr data = rw_.constant(tuples);
  if (data && data->element_count() <= kMaxConstant) {
    const auto all = ir::to_integers(*data);
    if (!all.ok()) return std::nullopt;
    std::vector<std::int64_t> values, shape = data->dims();
    for (std::size_t i = c; i < all->size(); i += count) {
      const std::int64_t at = (*all)[i];
      if (at < 0 && !size.is_constant()) return std::nullopt;
      values.push_back(at < 0 ? at + *size.constant() : at);
    }
    shape.back() = 1;
    return ir::fit_index(values, shape);
  }
  ValueId part = tuples;
  if (const auto* concat = rw_.op<ir::Concat>(tuples); concat && count > 1) {
    const std::vector<ValueId>& parts = rw_.producer(tuples)->inputs;
    if (ir::normalize_axis(concat->axis, dims.size()) != dims.size() - 1 || parts.size() != count)
      return std::nullopt;
    part = parts[c];
  } else if (count > 1) {
    return std::nullopt;
  }
  const auto* found = find(part);
  if (!found || !found->is_uniform() || !found->start.is_constant() || !size.is_constant() ||
      *found->start.constant() >= 0)
    return found ? Found(*found) : std::nullopt;
  return ir::uniform_index(Dim(*found->start.constant() + *size.constant()), dims.size());
}

std::optional<std::vector<IndexRun>> IndexAnalysis::overwritten_slice(
    const ir::Node& node, const ir::ScatterElements& op) {
  const std::vector<Dim>& sizes = rw_.type(node.inputs[1]).dims;
  const auto axis = ir::normalize_axis(op.axis, sizes.size());
  const AffineIndex* at = find(node.inputs[1]);
  if (op.reduction != ir::ScatterReduction::kNone || !axis || !at) return std::nullopt;
  std::vector<IndexRun> runs;
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    runs.push_back({0, 1, sizes[a]});
    if (a != *axis && !ir::is_zero(at->steps[a])) return std::nullopt;
  }
  const auto step = at->steps[*axis].constant().value_or(0);
  if (step < 1 && sizes[*axis] != Dim(1)) return std::nullopt;
  runs[*axis] = {at->start, std::max<std::int64_t>(step, 1), sizes[*axis]};
  return runs;
}

std::optional<std::vector<IndexRun>> IndexAnalysis::overwritten_block(const ir::Node& node) {
  if (const auto* slice = std::get_if<ir::ScatterElements>(&node.op))
    return overwritten_slice(node, *slice);
  const auto* op = std::get_if<ir::ScatterNd>(&node.op);
  if (!op || op->reduction != ir::ScatterReduction::kNone) return std::nullopt;
  const std::vector<Dim>& dims = rw_.type(node.inputs[0]).dims;
  const std::vector<Dim>& tuple_dims = rw_.type(node.inputs[1]).dims;
  const auto count = tuple_dims.back().constant();
  if (!count) return std::nullopt;
  std::vector<IndexRun> runs;
  std::size_t next = 0;  // axis of the tuples
  const auto skip_ones = [&] {
    while (next + 1 < tuple_dims.size() && tuple_dims[next] == Dim(1)) ++next;
  };
  for (std::size_t c = 0; c < dims.size(); ++c) {
    if (std::cmp_greater_equal(c, *count)) {
      runs.push_back({0, 1, dims[c]});
      continue;
    }
    const auto at = component(node.inputs[1], c, dims[c]);
    if (!at || at->steps.size() != tuple_dims.size()) return std::nullopt;
    runs.push_back({at->start, 1, 1});
    if (at->is_uniform()) continue;
    // Along each axis of the tuples, exactly one component grows.
    skip_ones();
    for (std::size_t a = 0; a < tuple_dims.size(); ++a)
      if (a != next && !ir::is_zero(at->steps[a])) return std::nullopt;
    const auto step = at->steps[next].constant();
    if (next + 1 >= tuple_dims.size() || !step || *step < 1) return std::nullopt;
    runs.back().step = *step;
    runs.back().size = tuple_dims[next++];
  }
  skip_ones();
  return next + 1 == tuple_dims.size() ? std::optional(std::move(runs)) : std::nullopt;
}

}  // namespace llmc::passes

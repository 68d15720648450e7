#include <algorithm>
#include <iterator>
#include <map>

#include "compiler/reference/tensor.h"
#include "passes/expert_lanes.h"
#include "passes/op_key.h"
#include "passes/product_weights.h"
#include "passes/routing.h"
#include "passes/transforms.h"

namespace llmc::passes {

namespace {

using ir::Dim;
using ir::ValueId;

constexpr std::size_t kMaxTerms = 1200;
constexpr int kMaxLiftDepth = 200;

/// Emits the rows of chosen experts. A value [rows…, N] of each expert becomes one value [rows…, k,
/// N], or [rows…, 1, N] if it is the same for all experts.
class ChosenRows {
 public:
  ChosenRows(Rewriter& rw, const Routing& routing, NodeIndex anchor)
      : rw_(rw), routing_(routing), anchor_(anchor), rows_(rw.type(routing.ids).dims) {
    chosen_ = rows_.back();
    rows_.pop_back();
  }

  /// Returns kNoValue if an operator mixes rows, differs between experts or is not supported.
  ValueId lift(const Lane& lane) {
    if (const auto known = lifted_.find(lane); known != lifted_.end()) return known->second;
    const ir::TensorType type = rw_.type(lane[0]);
    if (depth_ >= kMaxLiftDepth || type.rank() != rows_.size() + 1 ||
        !std::equal(rows_.begin(), rows_.end(), type.dims.begin()) ||
        !std::ranges::all_of(lane, [&](ValueId v) { return rw_.type(v) == type; }))
      return ir::kNoValue;
    ++depth_;
    ValueId result = is_shared(lane) ? unsqueezed(lane[0]) : lift_node(lane);
    --depth_;
    if (result.exists()) {
      const std::vector<Dim>& dims = rw_.type(result).dims;
      if (dims.size() != type.rank() + 1 || dims.back() != type.dims.back() ||
          rw_.type(result).element != type.element)
        result = ir::kNoValue;
    }
    return lifted_[lane] = result;
  }
  bool has_products() const { return has_products_; }

 private:
  static bool is_shared(const Lane& lane) {
    return std::ranges::all_of(lane, [&](ValueId v) { return v == lane[0]; });
  }
  ValueId unsqueezed(ValueId value) {
    return rw_.emit(ir::Unsqueeze{{static_cast<std::int64_t>(rows_.size())}}, {value}, anchor_);
  }
  /// Returns operand `i` of each expert's node; empty if one is absent.
  Lane operands(const Lane& lane, std::size_t i) const {
    Lane result;
    for (const ValueId value : lane) {
      const ValueId input = rw_.producer(value)->inputs[i];
      if (!input.exists()) return {};
      result.push_back(input);
    }
    return result;
  }

  ValueId lift_node(const Lane& lane) {
    const ir::Node* first = rw_.producer(lane[0]);
    if (!first) return ir::kNoValue;
    const auto key = op_key(first->op);
    for (const ValueId value : lane) {
      const ir::Node* node = rw_.producer(value);
      if (!key || !node || node->inputs.size() != first->inputs.size() ||
          rw_.slot(value) != rw_.slot(lane[0]) || op_key(node->op) != key)
        return ir::kNoValue;
    }
    const ir::Op op = first->op;
    if (std::holds_alternative<ir::MatMul>(op)) return product(lane);
    if (std::holds_alternative<ir::Slice>(op)) return slice(lane);
    if (const auto* split = std::get_if<ir::Split>(&op)) {
      const ValueId x =
          is_last_axis(split->axis, rows_.size() + 1) ? lift(operands(lane, 0)) : ir::kNoValue;
      if (!x.exists() || first->inputs.size() != 1) return ir::kNoValue;
      const ir::Split parts{static_cast<std::int64_t>(rows_.size()) + 1, split->sizes};
      return rw_.emit_all(parts, {x}, anchor_)[rw_.slot(lane[0])];
    }
    if (!ir::is_any<ir::Unary, ir::Binary, ir::Where, ir::Cast, ir::GatedActivation>(op))
      return ir::kNoValue;
    std::vector<ValueId> inputs;
    const std::size_t count = first->inputs.size();
    for (std::size_t i = 0; i < count; ++i) {
      const Lane operand = operands(lane, i);
      inputs.push_back(operand.empty()            ? ir::kNoValue
                       : rw_.constant(operand[0]) ? parameter(operand, lane[0])
                                                  : lift(operand));
      if (!inputs.back().exists()) return ir::kNoValue;
    }
    return rw_.emit(op, std::move(inputs), anchor_);
  }

  /// Returns the constant operand of an elementwise operator with result `like`: one for all
  /// experts, or a Gather of the rows of the chosen ones. Returns kNoValue if they cannot be
  /// stacked.
  ValueId parameter(const Lane& lane, ValueId like) {
    std::vector<ir::ConstantPtr> all;
    for (const ValueId value : lane) {
      all.push_back(rw_.constant(value));
      if (!all.back()) return ir::kNoValue;
    }
    if (std::ranges::all_of(all, [&](const auto& c) { return same_data(c, all[0]); })) {
      if (all[0]->element_count() == 1 || all[0]->dims().size() == 1) return lane[0];
    }
    std::vector<ir::ConstantPtr> rows;
    for (const ValueId value : lane) {
      const ir::ConstantPtr row = row_constant(rw_, value, like);
      if (!row) return ir::kNoValue;
      rows.push_back(ir::reshaped(row, {1, row->element_count()}));
    }
    const ValueId table =
        rw_.emit_constant(ir::concat_rows(std::move(rows)), anchor_, name_of(lane));
    return rw_.emit(ir::Gather{0}, {table, routing_.ids}, anchor_);
  }

  std::string name_of(const Lane& lane) const {
    const std::string first = rw_.name(lane.front()), last = rw_.name(lane.back());
    return first.empty() || last.empty() ? std::string() : first + " ... " + last;
  }

  ValueId product(const Lane& lane) {
    std::vector<ir::ConstantPtr> matrices;
    const Lane weights = operands(lane, 1), inputs = operands(lane, 0);
    if (weights.empty() || inputs.empty()) return ir::kNoValue;
    for (const ValueId weight : weights) {
      const ir::ConstantPtr matrix = matrix_constant(rw_, weight);
      if (!matrix || (!matrices.empty() && matrix->dims() != matrices[0]->dims()) ||
          matrix->dims()[1] % kExpertPanel != 0)
        return ir::kNoValue;
      matrices.push_back(matrix);
    }
    ValueId x = lift(inputs);
    if (!x.exists() || rw_.type(x).dims.back() != Dim(matrices[0]->dims()[0])) return ir::kNoValue;
    if (rw_.type(x).dims[rows_.size()] != chosen_) {
      std::vector<std::int64_t> shape(rows_.size() + 2, 1);
      shape[rows_.size()] = *chosen_.constant();
      x = rw_.emit(ir::Expand{}, {x, emit_integers(rw_, shape, anchor_)}, anchor_);
    }
    for (ir::ConstantPtr& matrix : matrices) matrix = ir::transposed(matrix);
    const auto experts = static_cast<std::int64_t>(matrices.size());
    const ValueId weight =
        rw_.emit_constant(ir::concat_rows(std::move(matrices)), anchor_, name_of(weights));
    has_products_ = true;
    return rw_.emit(ir::ExpertLinear{.experts = experts}, {x, weight, routing_.ids}, anchor_);
  }

  ValueId slice(const Lane& lane) {
    std::vector<ValueId> inputs;
    const std::size_t count = rw_.producer(lane[0])->inputs.size();
    for (std::size_t i = 1; i < count; ++i) {
      const auto numbers = integer_constant(rw_, rw_.producer(lane[0])->inputs[i]);
      if (!numbers || numbers->size() != 1) return ir::kNoValue;
      for (const ValueId value : lane)
        if (integer_constant(rw_, rw_.producer(value)->inputs[i]) != numbers) return ir::kNoValue;
      const bool axes = i == 3;
      if (axes && !is_last_axis(*numbers, rows_.size() + 1)) return ir::kNoValue;
      inputs.push_back(
          emit_integers(rw_, axes ? std::vector<std::int64_t>{-1} : *numbers, anchor_));
    }
    const ValueId x = lift(operands(lane, 0));
    if (!x.exists() || count < 4) return ir::kNoValue;
    inputs.insert(inputs.begin(), x);
    return rw_.emit(ir::Slice{}, std::move(inputs), anchor_);
  }

  Rewriter& rw_;
  const Routing& routing_;
  NodeIndex anchor_;
  std::vector<Dim> rows_;
  Dim chosen_ = Dim(0);
  std::map<Lane, ValueId> lifted_;
  int depth_ = 0;
  bool has_products_ = false;
};

/// Returns whether `value` is known to be 0 everywhere, whatever its size.
bool is_zero(const Rewriter& rw, ValueId value) {
  if (const auto* filled = rw.op<ir::ConstantOfShape>(value)) {
    if (!filled->value) return true;
    const reference::Tensor element = reference::to_tensor(*filled->value);
    return element.floats == std::vector<float>{0.0f};
  }
  if (rw.op<ir::Expand>(value)) return scalar_constant(rw, rw.producer(value)->inputs[0]) == 0.0;
  return scalar_constant(rw, value) == 0.0;
}

/// A term of the sum: the result of an expert and its factor.
struct Term {
  ValueId value;
  ExpertFactor factor;
};

std::optional<Term> match_term(const Rewriter& rw, ValueId value) {
  Term term{value, {ir::kNoValue, ir::kNoValue}};
  if (rw.op<ir::Where>(value)) {
    const ir::Node& node = *rw.producer(value);
    if (!is_zero(rw, node.inputs[2]) || rw.type(node.inputs[1]) != rw.type(value))
      return std::nullopt;
    term.factor.condition = node.inputs[0];
    value = node.inputs[1];
  }
  std::vector<Dim> column = rw.type(value).dims;
  if (column.size() < 2) return std::nullopt;
  column.back() = Dim(1);
  for (const auto& [result, factor] : either_order(rw, value, ir::BinaryKind::kMul)) {
    if (rw.type(factor).dims != column || rw.type(result).dims != rw.type(value).dims) continue;
    term.value = result;
    term.factor.factor = factor;
    return term;
  }
  return std::nullopt;
}

/// Returns the nodes that read the elements of a value: all but Shape, which reads its dims.
std::vector<NodeIndex> readers(const Rewriter& rw, ValueId value) {
  std::vector<NodeIndex> result;
  std::ranges::copy_if(rw.users(value), std::back_inserter(result), [&](NodeIndex user) {
    return !std::holds_alternative<ir::Shape>(rw.node(user).op);
  });
  return result;
}

/// Returns the terms of a sum, in order; none if there are too many.
std::vector<ValueId> terms_of(const Rewriter& rw, ValueId sum) {
  std::vector<ValueId> open{sum}, terms;
  while (!open.empty()) {
    if (terms.size() + open.size() > kMaxTerms) return {};
    const ValueId value = open.back();
    open.pop_back();
    const auto parts = binary(rw, value, ir::BinaryKind::kAdd);
    const bool own = value == sum || (!rw.is_output(value) && readers(rw, value).size() == 1);
    if (own && parts && rw.type(parts->left) == rw.type(sum) &&
        rw.type(parts->right) == rw.type(sum)) {
      open.push_back(parts->right);
      open.push_back(parts->left);
    } else {
      terms.push_back(value);
    }
  }
  return terms;
}

/// The routing of a sum, and the indices of the terms that belong to its experts.
struct RoutedTerms {
  Routing routing;
  std::vector<std::size_t> terms;
};

/// Returns the routing by the nearest TopK before node `i` that explains the factors. Terms whose
/// factors do not depend on its ids, such as that of a gated shared expert, are left out.
std::optional<RoutedTerms> nearest_routing(const Rewriter& rw, NodeIndex i,
                                           const std::vector<NodeIndex>& tops,
                                           const std::vector<ExpertFactor>& factors) {
  constexpr int kMaxTries = 4;
  int tries = 0;
  for (auto top = tops.rbegin(); top != tops.rend() && tries < kMaxTries; ++top) {
    if (*top > i || !rw.alive(*top)) continue;
    ++tries;
    RoutedTerms found;
    std::vector<ExpertFactor> routed;
    for (std::size_t t = 0; t < factors.size(); ++t) {
      if (!follows_from_choice(rw, *top, factors[t])) continue;
      found.terms.push_back(t);
      routed.push_back(factors[t]);
    }
    auto routing = find_routing(rw, *top, routed);
    if (!routing) continue;
    found.routing = *std::move(routing);
    return found;
  }
  return std::nullopt;
}

/// Replaces the sum that node `i` computes by the sum over the chosen experts, plus the terms
/// `rest`.
bool replace_sum(Rewriter& rw, NodeIndex i, Routing routing, const Lane& lane,
                 const std::vector<ValueId>& rest) {
  const ValueId sum = rw.node(i).outputs[0];
  std::vector<Dim> dims = rw.type(sum).dims;
  dims.back() = rw.type(routing.ids).dims.back();
  routing.ids = emit_reshape(rw, routing.ids, dims, i);
  routing.factors = emit_reshape(rw, routing.factors, dims, i);
  if (!routing.ids.exists() || !routing.factors.exists()) return false;
  ChosenRows chosen(rw, routing, i);
  const ValueId rows = chosen.lift(lane);
  if (!rows.exists() || !chosen.has_products()) return false;
  const auto axis = static_cast<std::int64_t>(rw.type(sum).rank()) - 1;
  const ValueId factor = rw.emit(ir::Unsqueeze{{axis + 1}}, {routing.factors}, i);
  const ValueId weighted = rw.emit(ir::Binary{ir::BinaryKind::kMul}, {rows, factor}, i);
  ValueId result = rw.emit(ir::Reduce{ir::ReduceKind::kSum, {axis}, false}, {weighted}, i);
  for (const ValueId other : rest)
    result = rw.emit(ir::Binary{ir::BinaryKind::kAdd}, {result, other}, i);
  if (rw.type(result) != rw.type(sum)) return false;
  rw.replace(sum, result);
  return true;
}

bool rewrite(Rewriter& rw, NodeIndex i, const std::vector<NodeIndex>& tops) {
  const ValueId sum = rw.node(i).outputs[0];
  if (!binary(rw, sum, ir::BinaryKind::kAdd) || !is_f32(rw, sum, 2)) return false;
  if (const auto users = readers(rw, sum); users.size() == 1 && !rw.is_output(sum)) {
    // A larger sum is rewritten as a whole.
    const ValueId larger = rw.node(users[0]).outputs[0];
    if (binary(rw, larger, ir::BinaryKind::kAdd) && rw.type(larger) == rw.type(sum)) return false;
  }
  std::vector<Term> experts;
  std::vector<ValueId> products, rest;  // products: terms that may belong to experts
  std::vector<ExpertFactor> factors;
  for (const ValueId value : terms_of(rw, sum)) {
    if (const auto term = match_term(rw, value)) {
      experts.push_back(*term);
      factors.push_back(term->factor);
      products.push_back(value);
    } else if (!is_zero(rw, value)) {
      rest.push_back(value);
    }
  }
  if (experts.size() < 2) return false;
  const auto found = nearest_routing(rw, i, tops, factors);
  if (!found) return false;
  Lane lane(found->terms.size());
  for (std::size_t t = 0; t < lane.size(); ++t)
    lane[static_cast<std::size_t>(found->routing.experts[t])] = experts[found->terms[t]].value;
  for (std::size_t t = 0; t < products.size(); ++t)
    if (std::ranges::count(found->terms, t) == 0) rest.push_back(products[t]);
  return replace_sum(rw, i, found->routing, lane, rest);
}

/// Rewrites the sum of a value along its first dim, the experts.
bool rewrite_batched(Rewriter& rw, NodeIndex i, const std::vector<NodeIndex>& tops) {
  const auto* reduce = std::get_if<ir::Reduce>(&rw.node(i).op);
  if (!reduce || reduce->kind != ir::ReduceKind::kSum || reduce->keep_dims ||
      reduce->axes.size() != 1)
    return false;
  const ValueId sum = rw.node(i).outputs[0], all = rw.node(i).inputs[0];
  const std::vector<Dim> dims = rw.type(sum).dims;
  const auto experts = rw.type(all).dims[0].constant();
  constexpr std::int64_t kMaxExperts = 1024;
  if (ir::normalize_axis(reduce->axes[0], rw.type(all).rank()) != std::size_t{0} || !experts ||
      *experts < 2 || *experts > kMaxExperts || !is_f32(rw, sum, 2))
    return false;
  const auto term = match_term(rw, all);
  if (!term) return false;
  std::vector<ExpertFactor> factors(static_cast<std::size_t>(*experts), term->factor);
  for (std::size_t e = 0; e < factors.size(); ++e) {
    factors[e].part = e;
    factors[e].parts = factors.size();
  }
  const auto found = nearest_routing(rw, i, tops, factors);
  if (!found || !std::ranges::is_sorted(found->routing.experts)) return false;
  const auto lane =
      ExpertSplitter(rw, *experts, {dims.begin(), dims.end() - 1}, i).split(term->value);
  return lane && replace_sum(rw, i, found->routing, *lane, {});
}

}  // namespace

Result<ir::Graph> choose_experts(ir::Graph graph, const PassContext&) {
  Rewriter rw(std::move(graph));
  std::vector<NodeIndex> tops;
  std::ranges::copy(rw.nodes<ir::TopK>(), std::back_inserter(tops));
  if (tops.empty()) return std::move(rw).finish();
  for (const NodeIndex i : rw.nodes())
    if (!rewrite(rw, i, tops)) rewrite_batched(rw, i, tops);
  return std::move(rw).finish();
}

}  // namespace llmc::passes

#include <numeric>

#include "passes/fusions.h"
#include "passes/match.h"
#include "passes/product_weights.h"

namespace llmc::passes {

namespace {

using ir::Dim;
using ir::ValueId;

/// Ids of chosen experts, and the number of experts.
struct Choice {
  ValueId ids;
  std::int64_t experts = 0;
};

/// Returns x if `ids` is min(max(x, 0), experts - 1) or max(min(x, experts - 1), 0), otherwise
/// `ids`.
ValueId before_clamp(const Rewriter& rw, ValueId ids, std::int64_t experts) {
  const auto limited = [&](ValueId value, ir::BinaryKind kind, double limit) {
    const auto found = with_scalar(rw, value, kind);
    if (found && found->scalar == limit) return found->value;
    const auto operands = binary(rw, value, kind);
    return operands && scalar_constant(rw, operands->left) == limit ? operands->right
                                                                    : ir::kNoValue;
  };
  using enum ir::BinaryKind;
  const auto last = static_cast<double>(experts - 1);
  for (const bool least_first : {true, false}) {
    const ValueId inner = limited(ids, least_first ? kMin : kMax, least_first ? last : 0);
    if (!inner.exists()) continue;
    const ValueId free = limited(inner, least_first ? kMax : kMin, least_first ? 0 : last);
    if (free.exists()) return free;
  }
  return ids;
}

/// Returns whether the elements are indices of a TopK along a dim of `experts` elements.
bool are_top_indices(const Rewriter& rw, ValueId ids, std::int64_t experts) {
  const ValueId source = strip_views(rw, ids);
  const ir::Node* node = rw.producer(source);
  const auto* top = ir::op_as<ir::TopK>(node);
  if (!top || rw.slot(source) != 1) return false;
  const auto& dims = rw.type(node->inputs[0]).dims;
  const auto axis = ir::normalize_axis(top->axis, dims.size());
  return axis && dims[*axis] == Dim(experts);
}

/// Returns the ids of a lookup in a table with `experts` rows; nullopt if they may be out of range.
/// Limits are removed, because ExpertLinear clamps its ids.
std::optional<Choice> match_choice(const Rewriter& rw, ValueId ids, std::int64_t experts) {
  if (rw.type(ids).element != ir::ElementType::kI64) return std::nullopt;
  const ValueId free = before_clamp(rw, ids, experts);
  if (free == ids && !are_top_indices(rw, ids, experts)) return std::nullopt;
  return Choice{free, experts};
}

/// The gathered matrices of the chosen experts. With `columns`, they are transposed after the
/// lookup.
struct ChosenMatrices {
  Choice choice;
  ir::ConstantPtr weights;  // float[E, …, …]
  std::string name;
  bool columns = false;
};

/// Returns the operand of a Cast from floats to f32; otherwise `value`.
ValueId before_widening(const Rewriter& rw, ValueId value) {
  const auto* cast = rw.op<ir::Cast>(value);
  if (!cast || cast->to != ir::ElementType::kF32) return value;
  const ValueId narrow = rw.producer(value)->inputs[0];
  return ir::is_float(rw.type(narrow).element) ? narrow : value;
}

/// Returns the constant of rank `rank` that is `value`, or from which a Cast to f32 computes it;
/// otherwise nullptr.
ir::ConstantPtr float_constant(const Rewriter& rw, ValueId value, std::size_t rank) {
  const ir::ConstantPtr data = rw.constant(before_widening(rw, value));
  return data && ir::is_float(data->element()) && data->dims().size() == rank ? data : nullptr;
}

std::optional<ChosenMatrices> match_matrices(const Rewriter& rw, ValueId value) {
  ChosenMatrices found;
  value = before_widening(rw, value);
  if (const auto* transpose = rw.op<ir::Transpose>(value)) {
    const std::size_t rank = rw.type(value).rank();
    std::vector<std::int64_t> swapped(rank);
    std::iota(swapped.begin(), swapped.end(), std::int64_t{0});
    if (rank < 2) return std::nullopt;
    std::swap(swapped[rank - 1], swapped[rank - 2]);
    if (transpose->perm != swapped) return std::nullopt;
    found.columns = true;
    value = before_widening(rw, rw.producer(value)->inputs[0]);
  }
  const auto* gather = rw.op<ir::Gather>(value);
  if (!gather || gather->axis != 0) return std::nullopt;
  const ir::Node& node = *rw.producer(value);
  found.weights = float_constant(rw, node.inputs[0], 3);
  if (!found.weights) return std::nullopt;
  const auto choice = match_choice(rw, node.inputs[1], found.weights->dims()[0]);
  if (!choice) return std::nullopt;
  found.choice = *choice;
  found.name = rw.name(node.inputs[0]);
  return found;
}

/// Returns the matrices of float[E, A, B] stacked by rows: [E * A, B], or [E * B, A] if
/// `transposes`.
ir::ConstantPtr stacked(const ir::ConstantPtr& weights, bool transposes) {
  const std::int64_t experts = weights->dims()[0], a = weights->dims()[1], b = weights->dims()[2];
  const ir::ConstantPtr all = ir::reshaped(weights, {experts * a, b});
  if (!transposes) return all;
  std::vector<ir::ConstantPtr> parts;
  for (std::int64_t e = 0; e < experts; ++e) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(a));
    std::iota(rows.begin(), rows.end(), e * a);
    parts.push_back(ir::transposed(ir::reorder_rows(all, std::move(rows))));
  }
  return ir::concat_rows(std::move(parts));
}

/// Returns `dims` without the last `removed` ones, and with `last` appended.
std::vector<Dim> with_last(std::vector<Dim> dims, std::size_t removed, std::optional<Dim> last) {
  dims.resize(dims.size() - removed);
  if (last) dims.push_back(*last);
  return dims;
}

void fuse_product(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const ValueId y = node.outputs[0];
  for (const bool matrix_first : {true, false}) {
    const ValueId x = node.inputs[matrix_first ? 1 : 0];
    const auto found = match_matrices(rw, node.inputs[matrix_first ? 0 : 1]);
    if (!found || !is_f32(rw, x, 2)) continue;
    // gather(W) . x reads rows of W, x . gather(W) columns.
    const bool columns = found->columns == matrix_first;
    const auto& stored = found->weights->dims();
    const std::int64_t n = columns ? stored[2] : stored[1], k = columns ? stored[1] : stored[2];
    if (n < 1 || k < 1 || n % kExpertPanel != 0) continue;
    std::vector<Dim> rows = rw.type(found->choice.ids).dims;  // one row for each chosen expert
    const auto expected = [&](std::int64_t width) {
      std::vector<Dim> dims = rows;
      dims.insert(dims.end(), {Dim(matrix_first ? width : 1), Dim(matrix_first ? 1 : width)});
      return dims;
    };
    if (rw.type(x).dims != expected(k) || rw.type(y).dims != expected(n)) continue;
    const ValueId flat = emit_reshape(rw, x, with_last(rows, 0, Dim(k)), i);
    if (!flat.exists()) continue;
    const ValueId weight = rw.emit_constant(stacked(found->weights, columns), i, found->name);
    const ValueId product = rw.emit(ir::ExpertLinear{.experts = found->choice.experts},
                                    {flat, weight, found->choice.ids}, i);
    const ValueId shaped = emit_reshape(rw, product, rw.type(y).dims, i);
    if (!shaped.exists()) continue;
    rw.replace(y, shaped);
    return;
  }
}

/// Includes gather(b[E, N], ids) that is added to the result of an ExpertLinear with the same ids.
void fuse_bias(Rewriter& rw, NodeIndex i) {
  const ValueId sum = rw.node(i).outputs[0];
  for (const auto& [result, bias] : either_order(rw, sum, ir::BinaryKind::kAdd)) {
    const ValueId product = strip_views(rw, result);
    const auto* linear = rw.op<ir::ExpertLinear>(product);
    const ValueId looked_up = before_widening(rw, strip_views(rw, bias));
    const auto* gather = rw.op<ir::Gather>(looked_up);
    if (!linear || !gather || gather->axis != 0 || rw.type(result) != rw.type(sum) ||
        rw.type(bias) != rw.type(sum))
      continue;
    const ir::Node& lookup = *rw.producer(looked_up);
    const ir::ConstantPtr data = float_constant(rw, lookup.inputs[0], 2);
    const auto& old = rw.producer(product)->inputs;
    const Dim n = rw.type(product).dims.back();
    if (!data || old.size() > 3 || data->dims()[0] != linear->experts ||
        !(n == Dim(data->dims()[1])))
      continue;
    const auto choice = match_choice(rw, lookup.inputs[1], linear->experts);
    if (!choice || old.size() < 3 || strip_views(rw, choice->ids) != strip_views(rw, old[2]))
      continue;
    std::vector<ValueId> inputs = old;
    inputs.push_back(rw.emit_constant(ir::reshaped(data, {data->element_count()}), i,
                                      rw.name(lookup.inputs[0])));
    const ValueId all = rw.emit(*linear, std::move(inputs), i);
    const ValueId shaped = emit_reshape(rw, all, rw.type(sum).dims, i);
    if (!shaped.exists()) continue;
    rw.replace(sum, shaped);
    return;
  }
}

}  // namespace

Result<ir::Graph> fuse_experts(ir::Graph graph, const PassContext&) {
  return rewrite_nodes<ir::MatMul, ir::Binary>(std::move(graph), [](Rewriter& rw, NodeIndex i) {
    std::holds_alternative<ir::MatMul>(rw.node(i).op) ? fuse_product(rw, i) : fuse_bias(rw, i);
  });
}

}  // namespace llmc::passes

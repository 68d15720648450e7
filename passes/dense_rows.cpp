#include <algorithm>
#include <map>

#include "passes/match.h"
#include "passes/transforms.h"

namespace llmc::passes {

namespace {

using ir::BinaryKind;
using ir::Dim;
using ir::ElementType;
using ir::ValueId;

constexpr int kMaxViews = 32;

/// One row of the result of NonZero, as a vector or broadcast along other axes.
struct Component {
  NodeIndex selection = 0;  // the NonZero node
  std::size_t axis = 0;     // axis of the mask
};

/// Follows views from `value` to the NonZero node whose row it is; nullopt if it is not a row.
std::optional<Component> component_of(const Rewriter& rw, ValueId value) {
  std::vector<std::pair<const ir::Node*, std::size_t>> views;
  for (int step = 0; step < kMaxViews; ++step) {
    const ir::Node* node = rw.producer(value);
    if (!node) return std::nullopt;
    if (std::holds_alternative<ir::NonZero>(node->op)) {
      // The index of the row, and that of the selected element.
      std::optional<ir::AffineIndex> row = ir::AffineIndex{Dim(0), {Dim(1), Dim(0)}};
      std::optional<ir::AffineIndex> element = ir::AffineIndex{Dim(0), {Dim(0), Dim(1)}};
      for (std::size_t i = views.size(); i-- > 0 && row && element;) {
        const auto maps = index_maps(rw, *views[i].first, views[i].second);
        const auto& result = rw.type(views[i].first->outputs[views[i].second]);
        if (maps.size() != 1) return std::nullopt;
        row = ir::compose(*row, maps[0], result.rank());
        element = ir::compose(*element, maps[0], result.rank());
        for (std::size_t a = 0; row && element && a < result.rank(); ++a)
          if (result.dims[a] == Dim(1)) row->steps[a] = element->steps[a] = Dim(0);
      }
      const auto axis = row && row->is_uniform() ? row->start.constant() : std::nullopt;
      if (!axis || !element || !ir::is_zero(element->start)) return std::nullopt;
      const auto counted = std::ranges::count(element->steps, Dim(1));
      if (counted != 1 ||
          counted + std::ranges::count(element->steps, Dim(0)) != std::ssize(element->steps))
        return std::nullopt;
      return Component{*rw.producer_index(value), static_cast<std::size_t>(*axis)};
    }
    if (!ir::is_view(node->op)) return std::nullopt;
    views.emplace_back(node, rw.slot(value));
    value = node->inputs[0];
  }
  return std::nullopt;
}

/// Moves `value` and `axis` from the result of a view or cast to its operand. Returns false if the
/// axis is not one of the operand.
bool through_view(const Rewriter& rw, const ir::Node& node, ValueId& value, std::size_t& axis) {
  if (!std::holds_alternative<ir::Cast>(node.op)) {
    const auto maps = index_maps(rw, node, rw.slot(value));
    if (maps.size() != 1) return false;
    const auto& axes = maps[0].axes;
    const auto at = std::ranges::find_if(
        axes, [&](const ir::AxisIndex& index) { return index.result_axis() == axis; });
    if (at == axes.end()) return false;
    axis = static_cast<std::size_t>(at - axes.begin());
  }
  value = node.inputs[0];
  return true;
}

/// Returns whether the elements along `axis` are distinct: indices of a TopK along it.
bool differ(const Rewriter& rw, ValueId value, std::size_t axis) {
  for (int step = 0; step < kMaxViews; ++step) {
    const ir::Node* node = rw.producer(value);
    if (!node) return false;
    if (const auto* top = std::get_if<ir::TopK>(&node->op))
      return rw.slot(value) == 1 && ir::normalize_axis(top->axis, rw.type(value).rank()) == axis;
    if (std::holds_alternative<ir::Where>(node->op)) {
      // Negative indices count from the end, but those of TopK are not negative.
      const auto below = binary(rw, node->inputs[0], BinaryKind::kLess);
      if (!below || below->left != node->inputs[2] || scalar_constant(rw, below->right) != 0.0 ||
          rw.type(node->inputs[2]).rank() != rw.type(value).rank())
        return false;
      value = node->inputs[2];
    } else if (!through_view(rw, *node, value, axis)) {
      return false;
    }
  }
  return false;
}

/// Returns whether at most one element along `axis` is not 0.
bool has_one_at_most(const Rewriter& rw, ValueId value, std::size_t axis) {
  for (int step = 0; step < kMaxViews; ++step) {
    const ir::Node* node = rw.producer(value);
    if (!node) return false;
    if (binary(rw, value, BinaryKind::kEqual)) {
      const std::size_t rank = rw.type(value).rank();
      for (const auto& [x, other] : either_order(rw, value, BinaryKind::kEqual)) {
        const std::size_t lead = rank - rw.type(x).rank(), lead2 = rank - rw.type(other).rank();
        const bool fixed = axis < lead2 || rw.type(other).dims[axis - lead2] == Dim(1);
        if (fixed && axis >= lead && differ(rw, x, axis - lead)) return true;
      }
      return false;
    }
    if (std::holds_alternative<ir::Where>(node->op)) {
      const auto no = scalar_constant(rw, node->inputs[2]);
      if (no != 0.0 || rw.type(node->inputs[0]).dims != rw.type(value).dims ||
          !scalar_constant(rw, node->inputs[1]))
        return false;
      value = node->inputs[0];
    } else if (!through_view(rw, *node, value, axis)) {
      return false;
    }
  }
  return false;
}

/// Rewrites one scatter. Values with one element for each selected token have the dim `selected_`.
/// Lifted values have the dim `tokens_` instead.
class DenseRows {
 public:
  DenseRows(Rewriter& rw, NodeIndex scatter) : rw_(rw), anchor_(scatter) {}

  bool rewrite() {
    const ir::Node& node = rw_.node(anchor_);
    const auto* elements = std::get_if<ir::ScatterElements>(&node.op);
    const auto* tuples = std::get_if<ir::ScatterNd>(&node.op);
    if (!elements && !tuples) return false;
    const auto reduction = elements ? elements->reduction : tuples->reduction;
    const bool adds = reduction == ir::ScatterReduction::kAdd;
    if ((elements && elements->axis != 0) || (!adds && reduction != ir::ScatterReduction::kNone))
      return false;
    const ValueId data = node.inputs[0], updates = node.inputs[2], result = node.outputs[0];
    const ir::TensorType type = rw_.type(data);
    const auto found = component_of(rw_, node.inputs[1]);
    if (!found || type.rank() == 0 || !select(*found) || type.dims[0] != tokens_) return false;
    const auto& indices = rw_.type(node.inputs[1]).dims;
    if (indices.empty() || indices[0] != selected_ ||
        (tuples && indices != std::vector<Dim>{selected_, 1}) ||
        (elements && indices != rw_.type(updates).dims) ||
        lifted_dims(updates) != std::optional(type.dims))
      return false;
    const ValueId rows = lift(updates);
    if (!rows.exists()) return false;
    std::vector<Dim> column(type.rank(), Dim(1));
    column[0] = tokens_;
    const ValueId chosen = emit_reshape(rw_, any(), column, anchor_);
    if (!chosen.exists()) return false;
    const ValueId other = adds ? zero(type.element) : data;
    ValueId to = rw_.emit(ir::Where{}, {chosen, rows, other}, anchor_);
    if (adds) to = rw_.emit(ir::Binary{BinaryKind::kAdd}, {data, to}, anchor_);
    rw_.replace(result, to);
    return true;
  }

 private:
  /// Sets the selection. Returns false if a token might be selected more than once.
  bool select(const Component& tokens) {
    selection_ = tokens.selection;
    const ir::Node& node = rw_.node(selection_);
    mask_ = node.inputs[0];
    const ir::TensorType& type = rw_.type(mask_);
    token_axis_ = tokens.axis;
    selected_ = rw_.type(node.outputs[0]).dims[1];
    tokens_ = type.dims[token_axis_];
    if (type.rank() > 2 || selected_.is_constant()) return false;
    if (type.rank() == 2) slots_ = type.dims[1 - token_axis_].constant();
    return type.rank() == 1 || (slots_ && has_one_at_most(rw_, mask_, 1 - token_axis_));
  }
  bool is_token(const std::optional<Component>& c) const {
    return c && c->selection == selection_ && c->axis == token_axis_;
  }
  bool is_slot(const std::optional<Component>& c) const {
    return c && c->selection == selection_ && c->axis != token_axis_;
  }

  ValueId zero(ElementType element) {
    const ValueId number = rw_.emit_constant(ir::make_f32({}, {0.0f}), anchor_);
    return element == ElementType::kF32 ? number : rw_.emit(ir::Cast{element}, {number}, anchor_);
  }
  /// Emits bool[T, slots] from the mask.
  ValueId mask_by_token() {
    ValueId mask = mask_;
    if (rw_.type(mask).element != ElementType::kBool)
      mask = rw_.emit(ir::Cast{ElementType::kBool}, {mask}, anchor_);
    return token_axis_ == 0 ? mask : rw_.emit(ir::Transpose{{1, 0}}, {mask}, anchor_);
  }
  /// Emits bool[T]: whether the token is selected.
  ValueId any() {
    if (!slots_) return mask_by_token();
    const ValueId counts = rw_.emit(ir::Cast{ElementType::kI64}, {mask_by_token()}, anchor_);
    const ValueId sum = rw_.emit(ir::Reduce{ir::ReduceKind::kSum, {1}, false}, {counts}, anchor_);
    return rw_.emit(ir::Cast{ElementType::kBool}, {sum}, anchor_);
  }
  /// Emits, for each token, the element of `table`, which has T * slots elements, in the token's
  /// slot.
  ValueId in_slot(ValueId table, const std::vector<Dim>& dims) {
    const ElementType element = rw_.type(table).element;
    const ValueId rows = emit_reshape(rw_, table, {tokens_, Dim(*slots_)}, anchor_);
    if (!rows.exists() || !ir::is_float(element)) return ir::kNoValue;
    const ValueId kept = rw_.emit(ir::Where{}, {mask_by_token(), rows, zero(element)}, anchor_);
    const ValueId sum = rw_.emit(ir::Reduce{ir::ReduceKind::kSum, {1}, true}, {kept}, anchor_);
    return emit_reshape(rw_, sum, dims, anchor_);
  }

  /// Returns the axis of the selected tokens; nullopt unless there is exactly one.
  std::optional<std::size_t> selected_axis(ValueId value) const {
    const auto& dims = rw_.type(value).dims;
    const auto at = std::ranges::find(dims, selected_);
    if (at == dims.end() || std::ranges::count(dims, selected_) != 1) return std::nullopt;
    return static_cast<std::size_t>(at - dims.begin());
  }
  std::optional<std::vector<Dim>> lifted_dims(ValueId value) const {
    const auto axis = selected_axis(value);
    if (!axis) return std::nullopt;
    std::vector<Dim> dims = rw_.type(value).dims;
    dims[*axis] = tokens_;
    return dims;
  }
  bool has_selected(ValueId value) const {
    return value.exists() && std::ranges::any_of(rw_.type(value).dims, [&](const Dim& dim) {
             return dim.terms().contains(selected_.terms().begin()->first);
           });
  }

  /// Returns the value for all tokens, or `value` itself if it has no dim of selected tokens.
  /// Returns kNoValue if an operator mixes rows or is not supported.
  ValueId lift(ValueId value) {
    if (!has_selected(value)) return value;
    if (const auto known = lifted_.find(value); known != lifted_.end()) return known->second;
    constexpr int kMaxDepth = 200;
    const auto dims = lifted_dims(value);
    const ir::Node* node = rw_.producer(value);
    if (!dims || !node || depth_ >= kMaxDepth) return ir::kNoValue;
    ++depth_;
    ValueId result = lift(*node, value, *dims);
    --depth_;
    if (result.exists() &&
        (rw_.type(result).dims != *dims || rw_.type(result).element != rw_.type(value).element))
      result = ir::kNoValue;
    return lifted_[value] = result;
  }

  ValueId lift(const ir::Node& node, ValueId value, const std::vector<Dim>& dims) {
    if (const auto* gather = std::get_if<ir::Gather>(&node.op)) {
      const ValueId data = node.inputs[0], indices = node.inputs[1];
      if (has_selected(indices)) {
        if (has_selected(data)) return ir::kNoValue;
        const auto axis = static_cast<std::size_t>(
            ir::normalize_axis(gather->axis, rw_.type(data).rank()).value_or(0));
        if (is_token(component_of(rw_, indices)))
          return rw_.type(data).dims[axis] == tokens_ ? emit_reshape(rw_, data, dims, anchor_)
                                                      : ir::kNoValue;
        return axis == 0 && is_flat_slot(indices) ? in_slot(data, dims) : ir::kNoValue;
      }
      return same(node, value);
    }
    if (const auto* gather = std::get_if<ir::GatherNd>(&node.op)) {
      // The indices must be tuples (token, slot).
      const auto* tuple = rw_.op<ir::Concat>(node.inputs[1]);
      if (!tuple || gather->batch_dims != 0 || !slots_ || has_selected(node.inputs[0]))
        return ir::kNoValue;
      const std::vector<ValueId>& parts = rw_.producer(node.inputs[1])->inputs;
      const bool pairs = parts.size() == 2 && is_last_axis(tuple->axis, rw_.type(parts[0]).rank());
      const auto& table = rw_.type(node.inputs[0]).dims;
      return pairs && is_token(component_of(rw_, parts[0])) &&
                     is_slot(component_of(rw_, parts[1])) && table.size() >= 2 &&
                     table[0] == tokens_ && table[1] == Dim(*slots_)
                 ? in_slot(node.inputs[0], dims)
                 : ir::kNoValue;
    }
    if (ir::is_reshape(node.op)) {
      const ValueId x = lift(node.inputs[0]);
      return x.exists() && keeps_axis(node, value) ? emit_reshape(rw_, x, dims, anchor_)
                                                   : ir::kNoValue;
    }
    if (std::holds_alternative<ir::Expand>(node.op)) return expanded(node, value, dims);
    const auto keeps = [&](std::int64_t axis) {
      const std::size_t rank = rw_.type(node.inputs[0]).rank();
      return ir::normalize_axis(axis, rank) != selected_axis(node.inputs[0]);
    };
    if (const auto* softmax = std::get_if<ir::Softmax>(&node.op))
      return keeps(softmax->axis) ? same(node, value) : ir::kNoValue;
    if (const auto* reduce = std::get_if<ir::Reduce>(&node.op))
      return !reduce->axes.empty() && std::ranges::all_of(reduce->axes, keeps) ? same(node, value)
                                                                               : ir::kNoValue;
    if (std::holds_alternative<ir::MatMul>(node.op)) {
      const ValueId x = node.inputs[0];
      const bool contracted = selected_axis(x) == rw_.type(x).rank() - 1;
      return has_selected(x) && !contracted && !has_selected(node.inputs[1]) ? same(node, value)
                                                                             : ir::kNoValue;
    }
    if (const auto* gemm = std::get_if<ir::Gemm>(&node.op))
      return selected_axis(node.inputs[0]) == std::size_t{gemm->trans_a ? 1u : 0u} &&
                     !has_selected(node.inputs[1])
                 ? same(node, value)
                 : ir::kNoValue;
    if (ir::is_view(node.op)) return keeps_axis(node, value) ? same(node, value) : ir::kNoValue;
    const bool elementwise = ir::is_any<ir::Unary, ir::Binary, ir::Where, ir::Cast>(node.op);
    return elementwise ? same(node, value) : ir::kNoValue;
  }

  /// Emits the operator with lifted operands.
  ValueId same(const ir::Node& node, ValueId value) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      inputs.push_back(input.exists() ? lift(input) : input);
      if (input.exists() && !inputs.back().exists()) return ir::kNoValue;
    }
    const std::size_t slot = rw_.slot(value);
    const ir::Op op = node.op;
    return rw_.emit_all(op, std::move(inputs), anchor_)[slot];
  }
  ValueId expanded(const ir::Node& node, ValueId value, const std::vector<Dim>& dims) {
    const ValueId x = lift(node.inputs[0]);
    if (!x.exists() || !has_selected(node.inputs[0]) || !keeps_axis(node, value))
      return ir::kNoValue;
    std::vector<std::int64_t> shape;
    const std::vector<Dim> from = rw_.type(x).dims;
    const std::size_t lead = dims.size() - from.size();
    for (std::size_t a = 0; a < dims.size(); ++a) {
      const bool kept = a >= lead && from[a - lead] == dims[a];
      if (!kept && !dims[a].is_constant()) return ir::kNoValue;
      shape.push_back(kept ? 1 : *dims[a].constant());
    }
    return rw_.emit(ir::Expand{}, {x, emit_integers(rw_, std::move(shape), anchor_)}, anchor_);
  }
  /// Returns whether a view keeps the index along the axis of the selected tokens.
  bool keeps_axis(const ir::Node& node, ValueId value) const {
    const auto to = selected_axis(value);
    const auto maps = index_maps(rw_, node, rw_.slot(value));
    return to && !maps.empty() && std::ranges::all_of(maps, [&](const ir::IndexMap& map) {
             const auto from = selected_axis(node.inputs[map.operand]);
             return from && map.axes[*from].result_axis() == to &&
                    !(map.range && map.range->axis == *to);
           });
  }
  /// Returns whether `indices` are token * slots + slot.
  bool is_flat_slot(ValueId indices) const {
    if (!slots_) return false;
    const ValueId sum = strip_views(rw_, indices);
    for (const auto& [slot, scaled] : either_order(rw_, sum, BinaryKind::kAdd)) {
      const auto product = with_scalar(rw_, scaled, BinaryKind::kMul);
      if (is_slot(component_of(rw_, slot)) && product &&
          product->scalar == static_cast<double>(*slots_) &&
          is_token(component_of(rw_, product->value)))
        return true;
    }
    return false;
  }

  Rewriter& rw_;
  NodeIndex anchor_;
  NodeIndex selection_ = 0;
  ValueId mask_;
  std::size_t token_axis_ = 0;
  std::optional<std::int64_t> slots_;  // absent for a mask of rank 1
  Dim selected_, tokens_;
  std::map<ValueId, ValueId> lifted_;
  int depth_ = 0;
};

}  // namespace

Result<ir::Graph> dense_rows(ir::Graph graph, const PassContext&) {
  return rewrite_nodes<ir::ScatterElements, ir::ScatterNd>(
      std::move(graph), [](Rewriter& rw, NodeIndex i) { DenseRows(rw, i).rewrite(); });
}

}  // namespace llmc::passes

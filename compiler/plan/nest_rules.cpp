#include "compiler/plan/nest_rules.h"

#include <algorithm>

#include "compiler/ir/shape_rules.h"
#include "compiler/plan/nest_lower.h"
#include "compiler/support/check.h"

/// Two rules for each operator: whether it keeps rows apart, and which sizes must agree.
namespace llmc::plan {
namespace {

using Axis = std::optional<std::size_t>;

/// Returns the number of elements of one row before the dim that counts tokens.
Size elements_before(const Sizes& dims, std::size_t axis) {
  return product(part(dims, 0, axis));
}

bool broadcasts(const Sizes& from, const Sizes& to) {
  if (from.size() > to.size()) return false;
  const std::size_t lead = to.size() - from.size();
  for (std::size_t a = 0; a < from.size(); ++a)
    if (from[a] != 1 && from[a] != to[lead + a]) return false;
  return true;
}

Sizes joined(Sizes a, const Sizes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Visits an operator: returns whether it keeps rows apart.
struct RowRule : RowAxes {
  Axis in(std::size_t i) const {
    const bool present = i < node.inputs.size() && node.inputs[i].exists();
    return present ? row_axis(graph.value(node.inputs[i]).type) : std::nullopt;
  }
  Axis out() const { return row_axis(graph.value(node.outputs[0]).type); }
  std::size_t rank(std::size_t i) const { return graph.value(node.inputs[i]).type.rank(); }

  /// Returns whether operand i has its rows along `axis`, counted from the end if negative.
  bool along(std::size_t i, std::int64_t axis) const {
    const Axis rows = in(i);
    return rows && ir::normalize_axis(axis, rank(i)) == rows;
  }
  /// Returns whether the integers of operand `bounds` for the row axis of operand 0 are all 0.
  bool zero_at_rows(std::size_t bounds) const {
    const Axis rows = in(0);
    const ir::ConstantPtr data = constant(node.inputs[bounds]);
    const auto values = data ? ir::to_integers(*data)
                             : Result<std::vector<std::int64_t>>(std::vector<std::int64_t>{});
    if (!values.ok() || values->size() != 2 * rank(0)) return false;
    return (*values)[*rows] == 0 && (*values)[rank(0) + *rows] == 0;
  }

  bool operator()(
      const OneOf<ir::Transpose, ir::Expand, ir::ConstantOfShape, ir::Unary, ir::Binary, ir::Where,
                  ir::Cast, ir::GatedActivation, ir::ConstantOp> auto&) const {
    return true;
  }
  // No loop nest exists for these.
  bool operator()(const OneOf<ir::Rope, ir::Attention, ir::CrossAttention, ir::Embedding,
                              ir::Linear, ir::ExpertLinear, ir::NonZero, ir::QkvProjection,
                              ir::Loop, ir::Parameter> auto&) const {
    return true;
  }
  bool operator()(const OneOf<ir::Shape, ir::Range, ir::ScaledAttention> auto&) const {
    return false;
  }
  bool operator()(const OneOf<ir::Reshape, ir::Squeeze, ir::Unsqueeze> auto&) const {
    return same_place();
  }
  bool operator()(
      const OneOf<ir::Split, ir::Softmax, ir::ArgMax, ir::TopK, ir::CumSum> auto& op) const {
    return !along(0, op.axis);
  }
  bool operator()(const OneOf<ir::LayerNorm, ir::RmsNorm> auto&) const { return !along(0, -1); }
  bool operator()(const ir::Slice&) const {
    if (!in(0)) return true;
    if (node.inputs.size() < 4 || !node.inputs[3].exists()) {
      const auto& starts = graph.value(node.inputs[1]).type.dims;
      const auto count = starts.empty() ? std::nullopt : starts[0].constant();
      return count && *count <= static_cast<std::int64_t>(*in(0));
    }
    const ir::ConstantPtr axes = constant(node.inputs[3]);
    const auto values = axes ? ir::to_integers(*axes)
                             : Result<std::vector<std::int64_t>>(std::vector<std::int64_t>{});
    return axes && values.ok() &&
           std::ranges::none_of(*values, [&](std::int64_t axis) { return along(0, axis); });
  }
  bool operator()(const ir::Concat& op) const {
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (along(i, op.axis)) return false;
    return true;
  }
  bool operator()(const ir::Gather& op) const { return !along(0, op.axis) && !(in(0) && in(1)); }
  bool operator()(const ir::GatherElements& op) const {
    return !along(0, op.axis) && in(0) == in(1);
  }
  bool operator()(const ir::ScatterElements& op) const {
    return !along(0, op.axis) && in(0) == in(1) && in(0) == in(2);
  }
  bool operator()(const ir::GatherNd&) const { return !in(0); }
  bool operator()(const ir::ScatterNd&) const { return !in(0) && !in(1) && !in(2); }
  bool operator()(const ir::Tile&) const {
    return !in(0) || (*dims[0])[*in(0)] == (*result_dims)[*out()];
  }
  bool operator()(const ir::Pad&) const { return !in(0) || zero_at_rows(1); }
  bool operator()(const ir::Trilu&) const { return !in(0) || *in(0) + 2 < rank(0); }
  bool operator()(const ir::MatMul&) const {
    return !along(0, -1) && !(rank(1) == 1 ? along(1, -1) : along(1, -2));
  }
  bool operator()(const ir::Gemm& op) const {
    return !along(0, op.trans_a ? 0 : 1) && !along(1, op.trans_b ? 1 : 0);
  }
  bool operator()(const ir::Conv&) const { return (!in(0) || *in(0) == 0) && !in(1); }
  bool operator()(const ir::DepthwiseConv&) const { return (!in(0) || *in(0) == 0) && !in(1); }
  bool operator()(const ir::Unfold&) const { return !in(0) || *in(0) == 0; }
  bool operator()(const ir::Reduce& op) const {
    if (op.axes.empty()) return !in(0);
    return std::ranges::none_of(op.axes, [&](std::int64_t axis) { return along(0, axis); });
  }

 private:
  /// Returns whether row-major order within a row is kept: the number of elements before the row
  /// axis must not change.
  bool same_place() const {
    if (!in(0)) return true;
    return out() && elements_before(*dims[0], *in(0)) == elements_before(*result_dims, *out());
  }
};

/// Visits an operator: returns whether its sizes agree.
struct SizeRule : NodeSizes {
  const Sizes& in(std::size_t i) const { return *operands[i]; }
  const Sizes& out() const { return *results[0]; }
  bool has(std::size_t i) const { return i < operands.size() && operands[i] != nullptr; }
  bool all_broadcast() const {
    return std::ranges::all_of(operands, [&](const Sizes* x) { return broadcasts(*x, out()); });
  }
  std::size_t axis(std::int64_t axis) const { return *ir::normalize_axis(axis, in(0).size()); }

  // Nothing to check: lower_open_slice() checks a Slice, NonZero has no nest, and Rope and the
  // operators after it occur in decoders only.
  bool operator()(
      const OneOf<ir::ConstantOp, ir::Shape, ir::ConstantOfShape, ir::Range, ir::Slice, ir::NonZero,
                  ir::Rope, ir::Attention, ir::CrossAttention, ir::QkvProjection, ir::ExpertLinear,
                  ir::Loop, ir::Parameter> auto&) const {
    return true;
  }
  bool operator()(
      const OneOf<ir::Cast, ir::Unary, ir::Softmax, ir::Trilu, ir::CumSum> auto&) const {
    return in(0) == out();
  }
  bool operator()(const OneOf<ir::Binary, ir::Where> auto&) const { return all_broadcast(); }
  bool operator()(const OneOf<ir::Reshape, ir::Squeeze, ir::Unsqueeze> auto&) const {
    return product(in(0)) == product(out());
  }
  bool operator()(const ir::GatedActivation&) const { return in(0) == out() && in(1) == out(); }
  bool operator()(const ir::Expand&) const { return broadcasts(in(0), out()); }
  bool operator()(const ir::Transpose& op) const {
    const View view{View::kNoBuffer, in(0), in(0), 0};
    return transposed(view, op.perm).dims == out();
  }
  bool operator()(const ir::Concat& op) const {
    Size sum = 0;
    for (const Sizes* x : operands) {
      sum += (*x)[axis(op.axis)];
      Sizes expected = out();
      expected[axis(op.axis)] = (*x)[axis(op.axis)];
      if (*x != expected) return false;
    }
    return sum == out()[axis(op.axis)];
  }
  bool operator()(const ir::Split& op) const {
    Size sum = 0;
    for (std::size_t i = 0; i < op.sizes.size(); ++i) {
      sum += op.sizes[i];
      Sizes expected = in(0);
      expected[axis(op.axis)] = op.sizes[i];
      if (results[i] != nullptr && *results[i] != expected) return false;
    }
    return sum == in(0)[axis(op.axis)];
  }
  bool operator()(const ir::Tile&) const {
    for (std::size_t a = 0; a < in(0).size(); ++a)
      if (in(0)[a] != 0 && !quotient(out()[a], in(0)[a])) return false;
    return in(0).size() == out().size();
  }
  bool operator()(const ir::Pad&) const {
    // The sizes of the result follow from the pads, which must be known.
    return in(0).size() == out().size();
  }
  bool operator()(const ir::Gather& op) const {
    const std::size_t at = axis(op.axis);
    return joined(joined(part(in(0), 0, at), in(1)), part(in(0), at + 1, in(0).size())) == out();
  }
  bool operator()(const ir::GatherElements& op) const {
    return in(1) == out() && within(in(1), in(0), axis(op.axis));
  }
  bool operator()(const ir::ScatterElements& op) const {
    return in(0) == out() && in(1) == in(2) && within(in(1), in(0), axis(op.axis));
  }
  bool operator()(const ir::GatherNd& op) const {
    const auto batch = static_cast<std::size_t>(op.batch_dims);
    if (!in(1).back().is_constant()) return false;
    const auto depth = static_cast<std::size_t>(in(1).back().bound());
    return part(in(0), 0, batch) == part(in(1), 0, batch) &&
           joined(part(in(1), 0, in(1).size() - 1), part(in(0), batch + depth, in(0).size())) ==
               out();
  }
  bool operator()(const ir::ScatterNd&) const {
    if (!in(1).back().is_constant()) return false;
    const auto depth = static_cast<std::size_t>(in(1).back().bound());
    return in(0) == out() &&
           joined(part(in(1), 0, in(1).size() - 1), part(in(0), depth, in(0).size())) == in(2);
  }
  bool operator()(const ir::MatMul&) const {
    Sizes a = in(0), b = in(1), y = out();
    if (a.size() == 1) {
      a.insert(a.begin(), 1);
      y.insert(y.end() - (b.size() == 1 ? 0 : 1), 1);
    }
    if (b.size() == 1) {
      b.push_back(1);
      y.push_back(1);
    }
    const auto front = [](const Sizes& x) { return part(x, 0, x.size() - 2); };
    return a.back() == b[b.size() - 2] && y[y.size() - 2] == a[a.size() - 2] &&
           y.back() == b.back() && broadcasts(front(a), front(y)) && broadcasts(front(b), front(y));
  }
  bool operator()(const ir::Gemm& op) const {
    const Sizes &a = in(0), &b = in(1);
    return a[op.trans_a ? 0 : 1] == b[op.trans_b ? 1 : 0] &&
           out() == Sizes{a[op.trans_a ? 1 : 0], b[op.trans_b ? 0 : 1]} &&
           (!has(2) || broadcasts(in(2), out()));
  }
  bool operator()(const ir::Conv& op) const {
    const Sizes &x = in(0), &weight = in(1), &y = out();
    if (!all_constant(weight) || x[1] != weight[1] * op.groups || y[0] != x[0] || y[1] != weight[0])
      return false;
    for (std::size_t i = 0; i < op.strides.size(); ++i) {
      const Size end = (y[i + 2] - 1) * op.strides[i] + (weight[i + 2] - 1) * op.dilations[i] + 1;
      if (!at_most(end, x[i + 2])) return false;
    }
    return true;
  }
  bool operator()(const ir::DepthwiseConv& op) const {
    const Sizes &x = in(0), &weight = in(1), &y = out();
    return all_constant(weight) && windows_fit(op, part(weight, 0, weight.size() - 1)) &&
           y[0] == x[0] && y.back() == x.back() && y.back() == weight.back();
  }
  bool operator()(const ir::Unfold& op) const {
    const Sizes &x = in(0), &y = out(), kernel(op.kernel.begin(), op.kernel.end());
    return windows_fit(op, kernel) && y[0] == x[0] && y.back() == x.back() * product(kernel);
  }
  bool operator()(const ir::Reduce& op) const {
    return reduced(*ir::normalize_axes(op.axes, in(0).size()), op.keep_dims) == out();
  }
  bool operator()(const ir::ArgMax& op) const {
    return reduced({axis(op.axis)}, op.keep_dims) == out();
  }
  bool operator()(const ir::TopK& op) const {
    Sizes expected = in(0);
    expected[axis(op.axis)] = out()[axis(op.axis)];
    return expected == out() && *results[1] == out();
  }
  bool operator()(const ir::LayerNorm&) const {
    return in(0) == out() && product(in(1)) == in(0).back() &&
           (!has(2) || product(in(2)) == in(0).back());
  }
  bool operator()(const ir::RmsNorm&) const {
    return in(0) == out() && product(in(1)) == in(0).back();
  }
  bool operator()(const ir::ScaledAttention&) const {
    const Sizes &q = in(0), &k = in(1), &v = in(2), &y = out();
    const auto front = [](const Sizes& x) { return part(x, 0, x.size() - 2); };
    const Size &queries = q[q.size() - 2], &keys = k.back();
    const Sizes scores = joined(front(y), {queries, keys});
    return q.back() == k[k.size() - 2] && keys == v[v.size() - 2] && y[y.size() - 2] == queries &&
           y.back() == v.back() && broadcasts(front(q), front(y)) &&
           broadcasts(front(k), front(y)) && broadcasts(front(v), front(y)) &&
           (!has(3) || broadcasts(in(3), scores)) && (!has(4) || broadcasts(in(4), scores));
  }
  bool operator()(const ir::Linear& op) const {
    const Sizes& weight = in(1);
    Sizes expected = in(0);
    expected.back() = op.gated ? quotient(weight[0], 2).value_or(0) : weight[0];
    return in(0).back() == weight[1] && expected == out() && (!has(4) || in(4) == out());
  }
  bool operator()(const ir::Embedding&) const { return joined(in(0), {in(1)[1]}) == out(); }

 private:
  /// Returns whether the windows of all positions of an operator with the channels last are inside
  /// operand 0.
  bool windows_fit(const auto& op, const Sizes& kernel) const {
    for (std::size_t i = 0; i < op.strides.size(); ++i) {
      const Size end = (out()[i + 1] - 1) * op.strides[i] + (kernel[i] - 1) * op.dilations[i] + 1;
      if (!at_most(end, in(0)[i + 1])) return false;
    }
    return true;
  }
  /// Returns whether `x` is at most `limit` in every dim other than `except`.
  static bool within(const Sizes& x, const Sizes& limit, std::size_t except) {
    for (std::size_t a = 0; a < x.size(); ++a)
      if (a != except && !at_most(x[a], limit[a])) return false;
    return x.size() == limit.size();
  }
  Sizes reduced(const std::vector<std::size_t>& axes, bool keep_dims) const {
    Sizes result;
    for (std::size_t a = 0; a < in(0).size(); ++a) {
      const bool gone = axes.empty() || std::ranges::binary_search(axes, a);
      if (!gone) {
        result.push_back(in(0)[a]);
      } else if (keep_dims) {
        result.push_back(1);
      }
    }
    return result;
  }
};

}  // namespace

bool keeps_rows(const RowAxes& axes) {
  return std::visit(RowRule{axes}, axes.node.op);
}

bool sizes_agree(const NodeSizes& sizes) {
  return std::visit(SizeRule{sizes}, sizes.node.op);
}

}  // namespace llmc::plan

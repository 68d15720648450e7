#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/ir/shape_rules.h"
#include "compiler/plan/nest_lower.h"
#include "compiler/support/check.h"

/// Checks and lowers nodes of plain graphs whose operands or results have open dims.
namespace llmc::plan {

using ir::ElementType;

namespace {

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

/// Checks that the sizes of a node's operands and results agree for all values of the open dims.
struct SizesAgree {
  const ir::Node& node;
  std::vector<const Sizes*> operands;  // nullptr if absent or unknown
  std::vector<const Sizes*> results;

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
  bool operator()(const ir::Unfold& op) const {
    const Sizes &x = in(0), &y = out();
    for (std::size_t i = 0; i < op.strides.size(); ++i) {
      const Size end = (y[i + 1] - 1) * op.strides[i] + (op.kernel[i] - 1) * op.dilations[i] + 1;
      if (!at_most(end, x[i + 1])) return false;
    }
    return y[0] == x[0] &&
           y.back() == x.back() * product(Sizes(op.kernel.begin(), op.kernel.end()));
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

Diagnostic NestLowerer::needs_numbers(const ir::Node& node, std::string message) const {
  std::set<std::string> names;
  const auto add_size = [&](const auto& self, const Size& size) -> void {
    if (size.is_constant()) return;
    for (const auto& [monomial, factor] : *size.terms()) {
      for (const OpenDimPtr& dim : monomial) {
        if (dim->numerator)
          self(self, *dim->numerator);
        else
          names.insert(dim->name);
      }
    }
  };
  const auto add = [&](ir::ValueId value) {
    if (!value.exists() || !dims_of(value)) return;
    for (const Size& size : dims(value)) add_size(add_size, size);
  };
  std::ranges::for_each(node.inputs, add);
  std::ranges::for_each(node.outputs, add);
  Diagnostic d = unsupported(node, std::move(message));
  d.hint = "give a number instead of a range: ";
  for (const std::string& name : names)
    d.hint += fmt::format("{}--dim {}=N", name == *names.begin() ? "" : " or ", name);
  return d;
}

Status NestLowerer::check_sizes(const ir::Node& node) const {
  SizesAgree sizes{node, {}, {}};
  bool open = false;
  const auto dims_or_null = [&](ir::ValueId value) -> const Sizes* {
    const Sizes* found = value.exists() ? dims_of(value) : nullptr;
    open = open || (found != nullptr && !all_constant(*found));
    return found;
  };
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    sizes.operands.push_back(dims_or_null(node.inputs[i]));
    LLMC_CHECK(sizes.operands.back() != nullptr || !node.inputs[i].exists() ||
               is_shape_operand(node, i));
  }
  for (const ir::ValueId output : node.outputs) sizes.results.push_back(dims_or_null(output));
  if (!open || std::visit(sizes, node.op)) return ok_status();
  std::string types;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i].exists() && !is_shape_operand(node, i))
      types += (types.empty() ? "" : ", ") + ir::to_string(graph_.value(node.inputs[i]).type);
  return needs_numbers(node, fmt::format("{} and its result {} may not fit for some of the sizes",
                                         types, ir::to_string(graph_.value(node.outputs[0]).type)));
}

bool NestLowerer::lower_open_sizes(const ir::Node& node) {
  if (host_.by_token() || node.outputs.size() != 1) return false;
  const ir::ValueId y = node.outputs[0];
  const auto sizes = host_.elements(y);
  if (!sizes || all_constant(*sizes)) return false;
  const auto value_of = [&](const Size& size, const Sizes& dims) {
    const ExpressionPtr number =
        index_expression(View{View::kNoBuffer, dims, Sizes(dims.size(), 0), size});
    return element(y) == ElementType::kI64 ? number : cast(element(y), number);
  };
  if (sizes->size() == 1) {
    set(y, value_of(sizes->front(), dims(y)));
    return true;
  }
  const auto count = static_cast<std::int64_t>(sizes->size());
  const View whole = *reshaped(result(y), {count});
  for (std::int64_t i = 0; i < count; ++i)
    emit(node,
         MapStage{sliced(whole, 0, i, 1, 1), value_of((*sizes)[static_cast<std::size_t>(i)], {1})});
  return true;
}

std::optional<Sizes> NestLowerer::known_sizes(const ir::Node& node, std::size_t operand) const {
  if (const auto open = host_.elements(node.inputs[operand])) return open;
  const auto numbers = integers(node, operand);
  if (!numbers.ok()) return std::nullopt;
  return Sizes(numbers->begin(), numbers->end());
}

Status NestLowerer::lower_open_slice(const ir::Node& node) {
  const ir::ValueId x = node.inputs[0], y = node.outputs[0];
  const auto starts = known_sizes(node, 1);
  if (!starts) return needs_numbers(node, "its first elements are not known when compiling");
  LLMC_TRY(const auto axes, slice_axes(node, starts->size()));
  const Sizes &from = dims(x), &to = dims(y);
  Sizes first(from.size(), 0);
  std::vector<std::int64_t> step(from.size(), 1);
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const auto [axis, by] = axes[i];
    const Size& size = from[axis];
    Size& start = first[axis];
    start = (*starts)[i];
    step[axis] = by;
    if (size.is_constant() && start.is_constant()) {
      start =
          ir::slice_range(size.bound(), start.bound(), by > 0 ? INT64_MAX : INT64_MIN, by).start;
    } else if (start.bound() <= INT64_MIN / 2) {
      start = 0;
    } else if (start.bound() < 0) {
      start += size;
    }
  }
  for (std::size_t a = 0; a < from.size(); ++a) {
    const bool whole = first[a] == 0 && step[a] == 1 && to[a] == from[a];
    const Size last = first[a] + (to[a] - 1) * step[a];
    const bool inside = first[a].least() >= 0 && to[a].least() >= 0 &&
                        (step[a] > 0 || last.least() >= 0) && at_most(last + 1, from[a]) &&
                        at_most(first[a], from[a]);
    if (!whole && !inside)
      return needs_numbers(node, fmt::format("its elements may end outside of {}",
                                             ir::to_string(graph_.value(x).type)));
  }
  return lower_view(node, [&](const View& v) -> std::optional<View> {
    View view = v;
    for (std::size_t a = 0; a < from.size(); ++a)
      if (first[a] != 0 || step[a] != 1 || to[a] != from[a])
        view = sliced(view, a, first[a], step[a], to[a]);
    return view;
  });
}

}  // namespace llmc::plan

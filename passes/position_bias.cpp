#include "passes/position_bias.h"

#include <algorithm>
#include <cmath>

#include "compiler/reference/interpreter.h"

namespace llmc::passes {

namespace {

using ir::Dim;
using ir::ValueId;

constexpr int kMaxDepth = 64;
constexpr std::int64_t kMaxTableElements = std::int64_t{1} << 20;   // of constants to evaluate
constexpr std::int64_t kMaxResultElements = std::int64_t{1} << 24;  // of results

bool is_elementwise(const ir::Op& op) {
  return ir::is_any<ir::Unary, ir::Binary, ir::Where, ir::Cast>(op);
}

/// Returns whether each row along the last axis is an arithmetic progression, up to the rounding of
/// f32. Rows may have different steps.
bool has_arithmetic_rows(const ir::Constant& table) {
  constexpr double kRounding = 1e-6;
  if (table.dims().empty() || table.element_count() > kMaxTableElements) return false;
  const auto count = static_cast<std::size_t>(table.dims().back());
  const std::vector<double> values = ir::to_doubles(table);
  for (std::size_t row = 0; count > 1 && row < values.size(); row += count) {
    const double first = values[row], last = values[row + count - 1];
    const double step = (last - first) / static_cast<double>(count - 1);
    const double limit = kRounding * std::max(std::abs(first), std::abs(last));
    for (std::size_t i = 0; i < count; ++i)
      if (!(std::abs(values[row + i] - first - step * static_cast<double>(i)) <= limit))
        return false;
  }
  return count > 1;
}

}  // namespace

std::optional<BiasIndex> combined(std::optional<BiasIndex> a, std::optional<BiasIndex> b) {
  if (!a || !b) return std::nullopt;
  if (*a == BiasIndex::kNothing || *a == *b) return b;
  return *b == BiasIndex::kNothing ? a : std::nullopt;
}

std::optional<BiasIndex> PositionBias::find(ValueId value) {
  const std::vector<Dim>& dims = rw_.type(value).dims;
  Axes axes(dims.size());
  const auto label = [&](std::size_t from_end, Axis axis, const Dim& size) {
    if (dims.size() < from_end || dims[dims.size() - from_end] == Dim(1)) return true;
    axes[dims.size() - from_end] = std::move(axis);
    return dims[dims.size() - from_end] == size;
  };
  if (!label(1, {Axis::Kind::kKey, 0}, shape_.keys) ||
      !label(2, {Axis::Kind::kQuery, shape_.past}, shape_.queries))
    return std::nullopt;
  // Only for a whole term: the softmax cancels a number that all keys share only if it is added to
  // the scores directly.
  if (is_slice_of_arithmetic_table(value, axes)) return BiasIndex::kDistance;
  return find(value, axes);
}

std::optional<BiasIndex> PositionBias::find(ValueId value, const Axes& axes) {
  if (depth_ >= kMaxDepth) return std::nullopt;
  for (const auto& [known_axes, index] : found_[value])
    if (known_axes == axes) return index;
  ++depth_;
  const std::optional<BiasIndex> index = compute(value, axes);
  --depth_;
  found_[value].emplace_back(axes, index);
  return index;
}

std::optional<BiasIndex> PositionBias::compute(ValueId value, const Axes& axes) {
  if (const auto* affine = indices_.find(value)) return of_affine(*affine, axes);
  const ir::Node* node = rw_.producer(value);
  if (!node) return std::nullopt;
  if (std::holds_alternative<ir::ConstantOp>(node->op)) {
    const bool varies =
        std::ranges::any_of(axes, [](const Axis& a) { return a.kind != Axis::Kind::kOther; });
    return varies ? std::nullopt : std::optional(BiasIndex::kNothing);
  }
  if (is_elementwise(node->op)) return of_elementwise(*node, axes);
  if (std::holds_alternative<ir::Gather>(node->op) && rw_.constant(node->inputs[0]))
    return of_lookup(*node, axes);
  return of_view(*node, value, axes);
}

/// Returns whether `value` is a Slice of consecutive elements, one for each key, along the last
/// axis of a constant whose rows are arithmetic progressions. slope * (key + n) is slope * (key -
/// query) plus a number that all keys of the query share. The softmax cancels this number, so it
/// does not matter where the slice begins.
bool PositionBias::is_slice_of_arithmetic_table(ValueId value, const Axes& axes) const {
  if (!rw_.op<ir::Slice>(value)) return false;
  const ir::Node& node = *rw_.producer(value);
  const ir::ConstantPtr table = rw_.constant(node.inputs[0]);
  if (!table || axes.empty() || axes.back().kind != Axis::Kind::kKey) return false;
  const auto other = [](const Axis& axis) { return axis.kind == Axis::Kind::kOther; };
  if (!std::all_of(axes.begin(), axes.end() - 1, other)) return false;
  using Integers = std::vector<std::int64_t>;
  const auto integers = [&](std::size_t operand) {
    return node.operand(operand).exists() ? integer_constant(rw_, node.inputs[operand])
                                          : std::nullopt;
  };
  const auto cut = integers(3), steps = integers(4);
  const bool last = cut == Integers{std::ssize(axes) - 1} || cut == Integers{-1};
  return last && (!node.operand(4).exists() || steps == Integers{1}) && has_arithmetic_rows(*table);
}

std::optional<BiasIndex> PositionBias::of_affine(const ir::AffineIndex& index,
                                                 const Axes& axes) const {
  std::int64_t query = 0, key = 0;
  std::optional<Dim> start = index.start;
  for (std::size_t a = 0; a < axes.size() && start; ++a) {
    const auto step = index.steps[a].constant();
    if (!step) return std::nullopt;
    if (axes[a].kind == Axis::Kind::kOther) continue;
    (axes[a].kind == Axis::Kind::kQuery ? query : key) += *step;
    const auto moved = ir::mul(axes[a].offset, Dim(*step));
    start = moved ? ir::sub(*start, *moved) : std::nullopt;
  }
  if (!start || !start->constant()) return std::nullopt;
  if (query == 0) return key == 0 ? BiasIndex::kNothing : BiasIndex::kKey;
  return query == -key ? std::optional(BiasIndex::kDistance) : std::nullopt;
}

std::optional<BiasIndex> PositionBias::of_elementwise(const ir::Node& node, const Axes& axes) {
  std::optional<BiasIndex> all = BiasIndex::kNothing;
  for (const ValueId input : node.inputs) {
    if (!input.exists() || !all) continue;
    const std::vector<Dim>& dims = rw_.type(input).dims;
    Axes own(axes.end() - static_cast<std::ptrdiff_t>(dims.size()), axes.end());
    for (std::size_t a = 0; a < dims.size(); ++a)
      if (dims[a] == Dim(1)) own[a] = {};
    all = combined(all, find(input, own));
  }
  return all;
}

std::optional<BiasIndex> PositionBias::of_lookup(const ir::Node& node, const Axes& axes) {
  if (std::get<ir::Gather>(node.op).axis != 0) return std::nullopt;
  const auto count = static_cast<std::ptrdiff_t>(rw_.type(node.inputs[1]).rank());
  if (std::any_of(axes.begin() + count, axes.end(),
                  [](const Axis& a) { return a.kind != Axis::Kind::kOther; }))
    return std::nullopt;
  return find(node.inputs[1], Axes(axes.begin(), axes.begin() + count));
}

std::optional<BiasIndex> PositionBias::of_view(const ir::Node& node, ValueId value,
                                               const Axes& axes) {
  const auto maps = index_maps(rw_, node, rw_.slot(value));
  if (maps.size() != 1 || maps[0].range) return std::nullopt;
  const std::vector<Dim>& dims = rw_.type(value).dims;
  Axes own(maps[0].axes.size());
  for (std::size_t a = 0; a < own.size(); ++a) {
    const ir::AxisIndex& index = maps[0].axes[a];
    if (index.fixed(dims) && index.table.empty()) continue;
    // index.start + r[k] with r[k] = position - offset
    const bool moves = index.table.empty() && index.terms.size() == 1 &&
                       index.terms[0].is_linear() && index.terms[0].step == Dim(1);
    const bool mixes = std::ranges::any_of(index.terms, [&](const ir::IndexTerm& term) {
      return axes[term.axis].kind != Axis::Kind::kOther;
    });
    if (!moves && mixes) return std::nullopt;
    if (!moves) continue;
    const Axis& from = axes[index.terms[0].axis];
    if (from.kind == Axis::Kind::kOther) continue;
    const auto offset = ir::sub(from.offset, index.start);
    if (!offset) return std::nullopt;
    own[a] = {from.kind, *offset};
  }
  return find(node.inputs[maps[0].operand], own);
}

const reference::Tensor* PositionBias::evaluate(ValueId value) {
  auto known = values_.find(value);
  if (known == values_.end()) {
    if (depth_ >= kMaxDepth) return nullptr;
    ++depth_;
    known = values_.emplace(value, compute_elements(value)).first;
    --depth_;
  }
  return known->second ? &*known->second : nullptr;
}

std::optional<reference::Tensor> PositionBias::compute_elements(ValueId value) {
  const ir::Node* node = rw_.producer(value);
  if (!node) return std::nullopt;
  std::vector<std::int64_t> dims;
  std::int64_t elements = 1;
  for (const Dim& dim : rw_.type(value).dims) {
    const auto size = dim.evaluate(sizes_);
    if (!size || *size < 0 || __builtin_mul_overflow(elements, *size, &elements))
      return std::nullopt;
    dims.push_back(*size);
  }
  if (elements > kMaxResultElements) return std::nullopt;
  reference::Tensor result;
  if (const auto* sizes = rw_.shape_values().find(value)) {
    result.element = rw_.type(value).element;
    result.dims = std::move(dims);
    for (const Dim& size : *sizes) {
      const auto number = size.evaluate(sizes_);
      if (!number) return std::nullopt;
      result.integers.push_back(*number);
    }
  } else if (const ir::ConstantPtr constant = rw_.constant(value)) {
    if (constant->element_count() > kMaxTableElements) return std::nullopt;
    result = reference::to_tensor(*constant);
  } else {
    std::vector<const reference::Tensor*> operands;
    for (const ValueId input : node->inputs) {
      operands.push_back(input.exists() ? evaluate(input) : nullptr);
      if (input.exists() && !operands.back()) return std::nullopt;
    }
    auto results = reference::evaluate_node(*node, operands);
    if (!results.ok()) return std::nullopt;
    result = std::move((*results)[rw_.slot(value)]);
  }
  return result;
}

std::optional<reference::Tensor> PositionBias::table(ValueId value, std::int64_t heads,
                                                     std::int64_t count) {
  sizes_.clear();
  values_.clear();
  for (const auto& [dim, size] :
       {std::pair(shape_.queries, std::int64_t{1}), std::pair(shape_.past, count - 1)}) {
    if (dim.constant() == size) continue;
    if (dim.terms().size() != 1 || dim.constant_part() != 0) return std::nullopt;
    sizes_[dim.terms().begin()->first] = size;
  }
  const reference::Tensor* found = evaluate(value);
  if (!found || found->element != ir::ElementType::kF32) return std::nullopt;
  std::vector<std::int64_t> dims = found->dims;
  dims.insert(dims.begin(), dims.size() < 4 ? 4 - dims.size() : 0, 1);
  if (dims.size() != 4 || dims[0] != 1 || dims[2] != 1 || (dims[1] != 1 && dims[1] != heads) ||
      (dims[3] != 1 && dims[3] != count))
    return std::nullopt;
  reference::Tensor table = reference::zeros(ir::ElementType::kF32, {heads, count});
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t from = (dims[1] == 1 ? 0 : h) * dims[3] + (dims[3] == 1 ? 0 : k);
      table.floats[static_cast<std::size_t>(h * count + k)] =
          found->floats[static_cast<std::size_t>(from)];
    }
  return table;
}

}  // namespace llmc::passes

#include <algorithm>
#include <cmath>

#include "compiler/ir/infer_rules.h"
#include "compiler/ir/shape_rules.h"

/// Type inference of operators that move data and compute shapes.
namespace llmc::ir {
namespace {

/// Returns the elements of a shape operand; if they are unknown, a new symbol for each.
Result<std::vector<Dim>> target_shape(const InferContext& c, std::size_t operand) {
  LLMC_RETURN_IF_ERROR(c.want_integer(operand));
  LLMC_RETURN_IF_ERROR(c.want_rank(operand, 1));
  if (const auto* known = c.values(operand)) return *known;
  const auto& length = c.type(operand).dims[0];
  if (!length.is_constant() || *length.constant() > 64)
    return c.error("the rank of the result is not known",
                   "the shape operand must have a fixed number of elements");
  std::vector<Dim> out;
  for (std::int64_t i = 0; i < *length.constant(); ++i) out.push_back(c.fresh());
  return out;
}

/// Returns the product, or nullopt if it is not affine.
std::optional<Dim> product(const std::vector<Dim>& dims) {
  Dim out(1);
  for (const Dim& dim : dims) {
    const auto next = mul(out, dim);
    if (!next) return std::nullopt;
    out = *next;
  }
  return out;
}

/// Returns the size that replaces -1 in a Reshape: the product of `total` divided by that of
/// `taken`. Cancels equal factors first, so that seq * x / seq is exact although the products are
/// not affine.
std::optional<Dim> remaining_size(std::vector<Dim> total, std::vector<Dim> taken) {
  for (auto it = taken.begin(); it != taken.end();) {
    const auto same = std::find(total.begin(), total.end(), *it);
    if (same == total.end()) {
      ++it;
      continue;
    }
    total.erase(same);
    it = taken.erase(it);
  }
  const auto a = product(total), b = product(taken);
  return a && b ? div_exact(*a, *b) : std::nullopt;
}

/// Returns the length of x[start:end], with step 1, of a dim that may be symbolic; nullopt if it
/// cannot be determined. Assumes that symbolic bounds are inside the dim, as exporters write them.
std::optional<Dim> slice_length(const Dim& dim, const Dim& start, const Dim& end) {
  // Converts a bound to a position counted from the front; nullopt if it is unknown whether the
  // bound is clamped.
  const auto position = [&](const Dim& bound) -> std::optional<Dim> {
    if (bound.is_constant() && *bound.constant() >= INT64_MAX / 2) return dim;
    if (bound.is_constant() && *bound.constant() <= INT64_MIN / 2) return Dim(0);
    const auto from_front = is_negative(bound) ? add(dim, bound) : std::optional(bound);
    if (!from_front) return std::nullopt;
    const auto below_end = sub(dim, *from_front);
    if (below_end && is_non_negative(*below_end)) {
      // The start in x[-k:] is clamped if the dim is smaller than k. A symbolic dim may be assumed
      // to be at least 1, but not more.
      if (is_negative(bound) && bound.is_constant() && bound != Dim(-1) &&
          !is_non_negative(*from_front))
        return std::nullopt;
      return from_front;
    }
    const auto beyond = sub(*from_front, dim);
    if (beyond && is_non_negative(*beyond)) return dim;
    // A number may exceed a symbolic dim, so it is unknown whether it is clamped. A symbolic bound
    // is assumed to be inside the dim.
    return bound.is_constant() && bound != Dim(0) ? std::nullopt : from_front;
  };
  const auto from = position(start), to = position(end);
  if (!from || !to) return std::nullopt;
  auto length = sub(*to, *from);
  if (length && is_negative(*length)) return Dim(0);
  return length;
}

}  // namespace

Result<Types> infer_op(const InferContext& c, const ConstantOp& op) {
  if (!op.data) return c.error("has no data");
  return Types{{op.data->element(), {op.data->dims().begin(), op.data->dims().end()}}};
}

Result<Types> infer_op(const InferContext& c, const Cast& op) {
  return Types{{op.to, c.type(0).dims}};
}

Result<Types> infer_op(const InferContext& c, const Reshape& op) {
  const auto& from = c.type(0);
  LLMC_TRY(auto shape, target_shape(c, 1));
  const bool known = c.values(1) != nullptr;
  std::optional<std::size_t> inferred;
  std::vector<Dim> others;
  if (op.allow_zero && std::count(shape.begin(), shape.end(), Dim(0)) > 0 &&
      std::count(shape.begin(), shape.end(), Dim(-1)) > 0)
    return c.error("the shape has both a 0 and a -1, which is ambiguous");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == Dim(0) && !op.allow_zero) {
      if (i >= from.rank())
        return c.error("dim " + std::to_string(i) + " copies a dim that the operand does not have");
      shape[i] = from.dims[i];
    }
    if (shape[i] == Dim(-1)) {
      if (inferred) return c.error("the shape has more than one -1");
      inferred = i;
    } else {
      others.push_back(shape[i]);
    }
  }
  const auto total = product(from.dims);
  if (inferred) {
    if (const auto rest = remaining_size(from.dims, others)) {
      shape[*inferred] = *rest;
    } else {
      const auto taken = product(others);
      if (total && taken && total->is_constant() && taken->is_constant())
        return c.error(to_string(from) + " does not divide into the requested shape");
      shape[*inferred] = c.fresh();
    }
  } else if (known) {
    const auto wanted = product(shape);
    if (total && wanted && !compatible(*total, *wanted))
      return c.error(to_string(from) + " does not have the " + wanted->to_string() +
                     " elements of " + to_string(TensorType{from.element, shape}));
  }
  return Types{{from.element, std::move(shape)}};
}

Result<Types> infer_op(const InferContext& c, const Transpose& op) {
  const auto& x = c.type(0);
  auto perm = op.perm;
  if (perm.empty())
    for (std::size_t i = x.rank(); i-- > 0;) perm.push_back(static_cast<std::int64_t>(i));
  const auto axes = normalize_axes(perm, x.rank());
  if (!axes || axes->size() != x.rank() || std::ranges::any_of(perm, [](auto a) { return a < 0; }))
    return c.error("perm is not a permutation of the dims of " + to_string(x));
  TensorType out{x.element, {}};
  for (const std::int64_t axis : perm) out.dims.push_back(x.dims[static_cast<std::size_t>(axis)]);
  return Types{std::move(out)};
}

Result<Types> infer_op(const InferContext& c, const Concat& op) {
  TensorType out = c.type(0);
  LLMC_TRY(const std::size_t axis, c.axis(op.axis));
  for (std::size_t i = 1; i < c.node().inputs.size(); ++i) {
    const auto& next = c.type(i);
    if (next.element != out.element || next.rank() != out.rank())
      return c.error("operands differ: " + to_string(out) + " against " + to_string(next));
    for (std::size_t d = 0; d < out.rank(); ++d) {
      if (d == axis) {
        auto sum = add(out.dims[d], next.dims[d]);
        out.dims[d] = sum ? *sum : c.fresh();
      } else {
        LLMC_RETURN_IF_ERROR(
            c.want_equal(out.dims[d], next.dims[d], "dim " + std::to_string(d) + " differs"));
        out.dims[d] = Dim(InferContext::merged(out.dims[d], next.dims[d]));
      }
    }
  }
  return Types{std::move(out)};
}

Result<Types> infer_op(const InferContext& c, const Split& op) {
  const auto& x = c.type(0);
  LLMC_TRY(const std::size_t axis, c.axis(op.axis));
  if (op.sizes.empty()) return c.error("has no parts");
  Types out;
  Dim sum(0);
  for (const std::int64_t size : op.sizes) {
    const auto next = add(sum, Dim(size));
    if (size < 0 || !next) return c.error("a part has size " + std::to_string(size));
    sum = *next;
    out.push_back(x);
    out.back().dims[axis] = Dim(size);
  }
  LLMC_RETURN_IF_ERROR(c.want_equal(sum, x.dims[axis], "the parts do not add up to the dim"));
  return out;
}

Result<Types> infer_op(const InferContext& c, const Slice&) {
  TensorType out = c.type(0);
  for (std::size_t i = 1; i < 5; ++i) {
    if (!c.has(i)) continue;
    LLMC_RETURN_IF_ERROR(c.want_integer(i));
    LLMC_RETURN_IF_ERROR(c.want_rank(i, 1));
  }
  const Dim& count = c.type(1).dims[0];
  for (std::size_t i = 2; i < 5; ++i)
    if (c.has(i))
      LLMC_RETURN_IF_ERROR(c.want_equal(count, c.type(i).dims[0], "bounds differ in number"));
  const auto* starts = c.values(1);
  const auto* ends = c.values(2);
  const auto steps = c.has(4) ? c.numbers(4) : std::nullopt;
  std::vector<std::int64_t> axes;
  if (c.has(3)) {
    const auto given = c.numbers(3);
    if (!given) return c.error("the axes are not known at compile time");
    axes = *given;
  } else if (count.is_constant() && *count.constant() <= static_cast<std::int64_t>(out.rank())) {
    for (std::int64_t i = 0; i < *count.constant(); ++i) axes.push_back(i);
  } else {
    return c.error("has more bounds than the operand has dims");
  }
  const auto normal = normalize_axes(axes, out.rank());
  if (!normal) return c.error("the axes do not fit " + to_string(out));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Dim& dim = out.dims[*normalize_axis(axes[i], out.rank())];
    const bool unknown_step = c.has(4) && (!steps || i >= steps->size());
    if (!starts || !ends || i >= starts->size() || i >= ends->size() || unknown_step) {
      dim = c.fresh();
      continue;
    }
    const std::int64_t step = steps ? (*steps)[i] : 1;
    if (step == 0) return c.error("a step is 0");
    const Dim &start = (*starts)[i], &end = (*ends)[i];
    std::optional<Dim> length;
    if (dim.is_constant() && start.is_constant() && end.is_constant()) {
      length = slice_range(*dim.constant(), *start.constant(), *end.constant(), step).count;
    } else if (step == 1) {
      length = slice_length(dim, start, end);
    }
    dim = length ? *length : c.fresh();
  }
  return Types{std::move(out)};
}

Result<Types> infer_op(const InferContext& c, const Squeeze& op) {
  const auto& x = c.type(0);
  const auto axes = normalize_axes(op.axes, x.rank());
  if (!axes) return c.error("the axes do not fit " + to_string(x));
  TensorType out{x.element, {}};
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (!std::binary_search(axes->begin(), axes->end(), i)) {
      out.dims.push_back(x.dims[i]);
    } else if (!compatible(x.dims[i], Dim(1))) {
      return c.error("dim " + std::to_string(i) + " of " + to_string(x) + " is not 1");
    }
  }
  return Types{std::move(out)};
}

Result<Types> infer_op(const InferContext& c, const Unsqueeze& op) {
  const auto& x = c.type(0);
  const std::size_t rank = x.rank() + op.axes.size();
  const auto axes = normalize_axes(op.axes, rank);
  if (!axes) return c.error("the axes do not fit " + to_string(x));
  TensorType out{x.element, {}};
  auto next = x.dims.begin();
  for (std::size_t i = 0; i < rank; ++i)
    out.dims.push_back(std::binary_search(axes->begin(), axes->end(), i) ? Dim(1) : *next++);
  return Types{std::move(out)};
}

Result<Types> infer_op(const InferContext& c, const Gather& op) {
  const auto& data = c.type(0);
  LLMC_RETURN_IF_ERROR(c.want_integer(1));
  LLMC_TRY(const std::size_t axis, c.axis(op.axis));
  const auto at = static_cast<std::ptrdiff_t>(axis);
  TensorType out{data.element, {data.dims.begin(), data.dims.begin() + at}};
  out.dims.insert(out.dims.end(), c.type(1).dims.begin(), c.type(1).dims.end());
  out.dims.insert(out.dims.end(), data.dims.begin() + at + 1, data.dims.end());
  return Types{std::move(out)};
}

Result<Types> infer_op(const InferContext& c, const Expand&) {
  LLMC_TRY(auto shape, target_shape(c, 1));
  LLMC_TRY(auto dims, c.broadcast(c.type(0).dims, shape));
  return Types{{c.type(0).element, std::move(dims)}};
}

Result<Types> infer_op(const InferContext& c, const Tile&) {
  TensorType out = c.type(0);
  LLMC_RETURN_IF_ERROR(c.want_integer(1));
  LLMC_RETURN_IF_ERROR(c.want_rank(1, 1));
  LLMC_RETURN_IF_ERROR(c.want_equal(c.type(1).dims[0], Dim(static_cast<std::int64_t>(out.rank())),
                                    "repeats differ in number from the dims"));
  const auto* repeats = c.values(1);
  for (std::size_t i = 0; i < out.rank(); ++i) {
    const auto size = repeats ? mul(out.dims[i], (*repeats)[i]) : std::nullopt;
    out.dims[i] = size ? *size : c.fresh();
  }
  return Types{std::move(out)};
}

Result<Types> infer_op(const InferContext& c, const Shape& op) {
  const auto [begin, end] = shape_range(op, c.rank(0));
  return Types{{ElementType::kI64, {Dim(static_cast<std::int64_t>(end - begin))}}};
}

Result<Types> infer_op(const InferContext& c, const ConstantOfShape& op) {
  if (!op.value || op.value->element_count() != 1) return c.error("value is not one element");
  LLMC_TRY(auto shape, target_shape(c, 0));
  return Types{{op.value->element(), std::move(shape)}};
}

namespace {

/// Returns the node whose first output is `value`; nullptr if it is not found. Most graphs number
/// values in the order of their nodes, so binary search usually finds the node. Small graphs are
/// then scanned; large ones are not, so that n lookups cost less than n².
const Node* find_producer(const Graph& graph, ValueId value) {
  constexpr std::size_t kMaxScanned = 4096;
  const std::vector<Node>& nodes = graph.nodes();
  const auto makes = [&](const Node& node) {
    return !node.outputs.empty() && node.outputs[0] == value;
  };
  const auto at = std::ranges::lower_bound(nodes, value, {}, [](const Node& node) {
    return node.outputs.empty() ? ValueId{0} : node.outputs[0];
  });
  if (at != nodes.end() && makes(*at)) return &*at;
  if (nodes.size() > kMaxScanned) return nullptr;
  const auto found = std::ranges::find_if(nodes, makes);
  return found == nodes.end() ? nullptr : &*found;
}

/// Returns the element of a constant operand with one element; otherwise nullopt.
std::optional<double> constant_number(const InferContext& c, std::size_t i) {
  const auto* constant = op_as<ConstantOp>(find_producer(c.graph(), c.node().inputs[i]));
  if (!constant || constant->data->element_count() != 1) return std::nullopt;
  return to_doubles(*constant->data)[0];
}

/// Returns the length of a Range of floats if its operands are constants, otherwise nullopt.
std::optional<Dim> float_range_length(const InferContext& c) {
  const auto start = constant_number(c, 0), limit = constant_number(c, 1);
  const auto step = constant_number(c, 2);
  if (!start || !limit || !step) return std::nullopt;
  const double count = std::max(0.0, std::ceil((*limit - *start) / *step));
  if (!(count < 0x1p53)) return std::nullopt;
  return static_cast<std::int64_t>(count);
}

}  // namespace

Result<Types> infer_op(const InferContext& c, const Range&) {
  const ElementType element = c.type(0).element;
  for (std::size_t i = 0; i < 3; ++i) {
    if (c.rank(i) > 1 || !compatible(c.rank(i) == 0 ? Dim(1) : c.type(i).dims[0], Dim(1)))
      return c.error("operand " + std::to_string(i) + " is not a scalar");
    if (c.type(i).element != element) return c.error("operands differ in element type");
  }
  const auto* start = c.values(0);
  const auto* limit = c.values(1);
  const auto delta = c.numbers(2);
  std::optional<Dim> length;
  if (start && limit && delta && start->size() == 1 && limit->size() == 1 && delta->size() == 1) {
    const std::int64_t step = delta->front();
    if (step == 0) return c.error("the step is 0");
    const auto difference = sub(limit->front(), start->front());
    if (difference && difference->is_constant()) {
      const std::int64_t d = *difference->constant();
      // Round up; adding step - 1 before the division could overflow.
      if (d == INT64_MIN) return c.error("the range is too long");
      const bool none = (step > 0) != (d > 0) || d == 0;
      length = none ? 0 : (step == -1 ? -d : d / step + (d % step != 0 ? 1 : 0));
    } else if (difference && step == 1) {
      length = difference;
    }
  }
  if (is_float(element)) length = float_range_length(c);
  return Types{{element, {length ? *length : c.fresh()}}};
}

Result<Types> infer_op(const InferContext& c, const Trilu&) {
  if (c.rank(0) < 2) return c.error("the operand has fewer than two dims");
  if (c.has(1)) LLMC_RETURN_IF_ERROR(c.want_integer(1));
  return Types{c.type(0)};
}

}  // namespace llmc::ir

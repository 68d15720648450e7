#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/ir/shape_rules.h"
#include "compiler/reference/eval.h"
#include "compiler/support/checked_math.h"

/// Evaluates operators that move data and compute shapes.
namespace llmc::reference {
namespace {

using Dims = std::vector<std::int64_t>;

/// Copies out[i…] = in[offset + Σ i·strides]; used for transposing, slicing, expanding and tiling.
void strided_copy(const Tensor& in, Tensor& out, const Dims& out_dims, const Dims& strides,
                  std::int64_t offset) {
  const auto copy = [&](const auto& from, auto& to) {
    for_each_run<2>(out_dims, {strides_of(out_dims), strides},
                    [&](const auto& at, std::int64_t n, const auto& step) {
                      for (std::int64_t i = 0; i < n; ++i)
                        to[index(at[0] + i)] = from[index(offset + at[1] + i * step[1])];
                    });
  };
  with_data(in.element, [&](auto data) { copy(in.*data, out.*data); });
}

/// Copies `count` elements from in[from] to out[to].
void copy_elements(const Tensor& in, std::int64_t from, Tensor& out, std::int64_t to,
                   std::int64_t count) {
  with_data(in.element, [&](auto data) {
    std::copy_n((in.*data).begin() + from, count, (out.*data).begin() + to);
  });
}

/// Returns the product of dims [begin, end). It does not overflow, because the tensor exists.
std::int64_t product(const Dims& dims, std::size_t begin, std::size_t end) {
  std::int64_t n = 1;
  for (std::size_t i = begin; i < end; ++i) n *= dims[i];
  return n;
}

/// Returns operand 0 with other dims. Fails with kBadInput if the number of elements differs.
Result<Tensors> viewed(EvalContext& c, Dims dims) {
  LLMC_TRY(Tensor out, c.make(c.operand(0).element, std::move(dims)));
  if (out.count() != c.operand(0).count()) return c.error("the number of elements changes");
  with_data(out.element, [&](auto data) { out.*data = c.operand(0).*data; });
  return Tensors{std::move(out)};
}

/// Returns the size that replaces -1 in a Reshape of a tensor with a dim of 0, such as an empty
/// cache. Cancels equal dims on both sides, as type inference does, so that the other dims keep
/// their size.
std::optional<std::int64_t> remaining_size(Dims total, const Dims& wanted) {
  std::int64_t taken = 1;
  for (const std::int64_t dim : wanted) {
    if (dim == -1) continue;
    const auto same = std::find(total.begin(), total.end(), dim);
    if (same != total.end()) {
      total.erase(same);
    } else if (__builtin_mul_overflow(taken, dim, &taken)) {
      return std::nullopt;
    }
  }
  const auto left = checked_product(total);
  if (!left || taken == 0 || *left % taken != 0) return std::nullopt;
  return *left / taken;
}

/// Converts a float to int64. Values out of range saturate, and NaN becomes 0. The caller wraps the
/// result to narrower types.
template <class Float>
std::int64_t truncate_to_integer(Float x, bool is_unsigned) {
  if (std::isnan(x)) return 0;
  if (is_unsigned && x >= static_cast<Float>(0x1p63))
    return x >= static_cast<Float>(0x1p64)
               ? -1
               : static_cast<std::int64_t>(static_cast<std::uint64_t>(x));
  if (x >= static_cast<Float>(0x1p63)) return INT64_MAX;
  if (x < static_cast<Float>(-0x1p63)) return INT64_MIN;
  return static_cast<std::int64_t>(x);
}

/// Casts one element. Integers are stored as int64 (u64 with the same bits).
template <class To, class From>
To cast_element(From x, ir::ElementType from, ir::ElementType to) {
  if constexpr (std::is_same_v<From, std::int64_t>) {
    if constexpr (std::is_same_v<To, std::int64_t>) return x;
    return from == ir::ElementType::kU64 ? static_cast<To>(static_cast<std::uint64_t>(x))
                                         : static_cast<To>(x);
  } else if constexpr (std::is_same_v<To, std::int64_t>) {
    if (to == ir::ElementType::kBool) return x != 0 ? 1 : 0;
    return truncate_to_integer(x, to == ir::ElementType::kU64);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace

Result<Tensors> eval_op(EvalContext& c, const ir::ConstantOp& op) {
  // Reserve memory first: a few bytes of text can describe a splat of any size.
  LLMC_RETURN_IF_ERROR(c.reserve(op.data->element(), op.data->dims()));
  return Tensors{to_tensor(*op.data)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Cast& op) {
  const Tensor& x = c.operand(0);
  LLMC_TRY(Tensor out, c.make(op.to, x.dims));
  with_data(x.element, [&](auto from) {
    with_data(op.to, [&](auto to) {
      using To = typename std::remove_reference_t<decltype(out.*to)>::value_type;
      std::transform((x.*from).begin(), (x.*from).end(), (out.*to).begin(),
                     [&](auto v) { return cast_element<To>(v, x.element, op.to); });
    });
  });
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Reshape& op) {
  const Tensor& x = c.operand(0);
  LLMC_RETURN_IF_ERROR(c.want_integer(1));
  Dims dims = c.operand(1).integers;
  if (op.allow_zero && std::count(dims.begin(), dims.end(), 0) > 0 &&
      std::count(dims.begin(), dims.end(), -1) > 0)
    return c.error("the shape has both a 0 and a -1, which is ambiguous");
  std::ptrdiff_t inferred = -1;
  std::int64_t known = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !op.allow_zero) {
      if (i >= x.rank()) return c.error("copies a dim that the operand does not have");
      dims[i] = x.dims[i];
    }
    if (dims[i] == -1) {
      if (inferred >= 0) return c.error("the shape has more than one -1");
      inferred = static_cast<std::ptrdiff_t>(i);
    } else if (dims[i] < 0 || __builtin_mul_overflow(known, dims[i], &known)) {
      return c.error("the shape is out of range");
    }
  }
  if (inferred >= 0) {
    const auto rest = known == 0               ? remaining_size(x.dims, dims)
                      : x.count() % known == 0 ? std::optional(x.count() / known)
                                               : std::nullopt;
    if (!rest) return c.error(type_text(x) + " does not divide into the requested shape");
    dims[index(inferred)] = *rest;
  } else if (known != x.count()) {
    return c.error(type_text(x) + " does not have the " + std::to_string(known) +
                   " elements of the requested shape");
  }
  return viewed(c, std::move(dims));
}

Result<Tensors> eval_op(EvalContext& c, const ir::Transpose& op) {
  const Tensor& x = c.operand(0);
  Dims perm = op.perm;
  if (perm.empty())
    for (std::size_t i = x.rank(); i-- > 0;) perm.push_back(static_cast<std::int64_t>(i));
  const auto axes = ir::normalize_axes(perm, x.rank());
  if (!axes || axes->size() != x.rank()) return c.error("perm is not a permutation");
  const Dims from = strides_of(x.dims);
  Dims dims, strides;
  for (const std::int64_t p : perm) {
    const auto axis = *ir::normalize_axis(p, x.rank());
    dims.push_back(x.dims[axis]);
    strides.push_back(from[axis]);
  }
  LLMC_TRY(Tensor out, c.make(x.element, dims));
  strided_copy(x, out, dims, strides, 0);
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Concat& op) {
  Dims dims = c.operand(0).dims;
  LLMC_TRY(const std::size_t axis, c.axis(op.axis, dims.size()));
  for (std::size_t i = 1; i < c.size(); ++i) {
    const Tensor& next = c.operand(i);
    bool fits = next.rank() == dims.size() && next.element == c.operand(0).element;
    for (std::size_t d = 0; fits && d < dims.size(); ++d)
      fits = d == axis || next.dims[d] == dims[d];
    if (!fits)
      return c.error("operands differ: " + type_text(c.operand(0)) + " against " + type_text(next));
    const auto sum = checked_add(dims[axis], next.dims[axis]);
    if (!sum) return c.error("the result is too large");
    dims[axis] = *sum;
  }
  LLMC_TRY(Tensor out, c.make(c.operand(0).element, dims));
  const std::int64_t outer = product(dims, 0, axis);
  const std::int64_t row = product(dims, axis, dims.size());
  std::int64_t at = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    const Tensor& part = c.operand(i);
    const std::int64_t part_row = product(part.dims, axis, dims.size());
    for (std::int64_t o = 0; o < outer; ++o)
      copy_elements(part, o * part_row, out, o * row + at, part_row);
    at += part_row;
  }
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Split& op) {
  const Tensor& x = c.operand(0);
  LLMC_TRY(const std::size_t axis, c.axis(op.axis, x.rank()));
  std::int64_t begin = 0;
  Tensors parts;
  const Dims strides = strides_of(x.dims);
  for (const std::int64_t size : op.sizes) {
    if (size < 0 || size > x.dims[axis] - begin)
      return c.error("the parts do not add up to the dim of " + type_text(x));
    Dims dims = x.dims;
    dims[axis] = size;
    LLMC_TRY(Tensor part, c.make(x.element, dims));
    strided_copy(x, part, dims, strides, begin * strides[axis]);
    parts.push_back(std::move(part));
    begin += size;
  }
  if (begin != x.dims[axis])
    return c.error("the parts do not add up to the dim of " + type_text(x));
  return parts;
}

Result<Tensors> eval_op(EvalContext& c, const ir::Slice&) {
  const Tensor& x = c.operand(0);
  for (std::size_t i = 1; i < 5; ++i) {
    if (!c.has(i)) continue;
    LLMC_RETURN_IF_ERROR(c.want_integer(i));
    LLMC_RETURN_IF_ERROR(c.want_equal(c.operand(i).count(), c.operand(1).count(), "bounds"));
  }
  Dims dims = x.dims, strides = strides_of(x.dims);
  Dims axes;
  for (std::int64_t i = 0; i < c.operand(1).count(); ++i)
    axes.push_back(c.has(3) ? c.operand(3).integers[index(i)] : i);
  if (!ir::normalize_axes(axes, x.rank())) return c.error("the axes do not fit " + type_text(x));
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = *ir::normalize_axis(axes[i], x.rank());
    const std::int64_t step = c.has(4) ? c.operand(4).integers[i] : 1;
    if (step == 0) return c.error("a step is 0");
    const auto range =
        ir::slice_range(x.dims[axis], c.operand(1).integers[i], c.operand(2).integers[i], step);
    dims[axis] = range.count;
    // With a single element the step is not used, and it may be huge.
    if (range.count > 0) offset += range.start * strides[axis];
    strides[axis] = range.count > 1 ? strides[axis] * step : 0;
  }
  LLMC_TRY(Tensor out, c.make(x.element, dims));
  strided_copy(x, out, dims, strides, offset);
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Squeeze& op) {
  const Tensor& x = c.operand(0);
  const auto axes = ir::normalize_axes(op.axes, x.rank());
  if (!axes) return c.error("the axes do not fit " + type_text(x));
  Dims dims;
  for (std::size_t i = 0; i < x.rank(); ++i)
    if (!std::binary_search(axes->begin(), axes->end(), i)) dims.push_back(x.dims[i]);
  return viewed(c, std::move(dims));
}

Result<Tensors> eval_op(EvalContext& c, const ir::Unsqueeze& op) {
  const Tensor& x = c.operand(0);
  const std::size_t rank = x.rank() + op.axes.size();
  const auto axes = ir::normalize_axes(op.axes, rank);
  if (!axes) return c.error("the axes do not fit " + type_text(x));
  Dims dims;
  auto next = x.dims.begin();
  for (std::size_t i = 0; i < rank; ++i)
    dims.push_back(std::binary_search(axes->begin(), axes->end(), i) ? 1 : *next++);
  return viewed(c, std::move(dims));
}

Result<Tensors> eval_op(EvalContext& c, const ir::Gather& op) {
  const Tensor &data = c.operand(0), &indices = c.operand(1);
  LLMC_RETURN_IF_ERROR(c.want_integer(1));
  LLMC_TRY(const std::size_t axis, c.axis(op.axis, data.rank()));
  Dims dims(data.dims.begin(), data.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), data.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
              data.dims.end());
  LLMC_TRY(Tensor out, c.make(data.element, std::move(dims)));
  const std::int64_t size = data.dims[axis];
  const std::int64_t outer = product(data.dims, 0, axis);
  const std::int64_t inner = product(data.dims, axis + 1, data.rank());
  std::int64_t to = 0;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const std::int64_t index : indices.integers) {
      if (index < -size || index >= size)
        return c.error("index " + std::to_string(index) + " is outside dim " +
                       std::to_string(axis) + " of " + type_text(data));
      const std::int64_t from = index < 0 ? index + size : index;
      copy_elements(data, (o * size + from) * inner, out, to, inner);
      to += inner;
    }
  }
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Expand&) {
  const Tensor& x = c.operand(0);
  LLMC_RETURN_IF_ERROR(c.want_integer(1));
  for (const std::int64_t size : c.operand(1).integers)
    if (size < 0) return c.error("a size is negative");
  LLMC_TRY(const auto dims, broadcast_dims(c, x.dims, c.operand(1).integers));
  LLMC_TRY(Tensor out, c.make(x.element, dims));
  strided_copy(x, out, dims, broadcast_strides(x.dims, dims), 0);
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Tile&) {
  const Tensor& x = c.operand(0);
  LLMC_RETURN_IF_ERROR(c.want_integer(1));
  LLMC_RETURN_IF_ERROR(
      c.want_equal(c.operand(1).count(), static_cast<std::int64_t>(x.rank()), "number of repeats"));
  // View as [r0, d0, r1, d1, …], where repeats have stride 0 in x.
  const Dims from = strides_of(x.dims);
  Dims dims, walked, strides;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    const std::int64_t repeats = c.operand(1).integers[i];
    const auto size = checked_mul(x.dims[i], repeats);
    if (repeats < 0 || !size) return c.error("a repeat is out of range");
    dims.push_back(*size);
    walked.insert(walked.end(), {repeats, x.dims[i]});
    strides.insert(strides.end(), {0, from[i]});
  }
  LLMC_TRY(Tensor out, c.make(x.element, std::move(dims)));
  strided_copy(x, out, walked, strides, 0);
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Shape& op) {
  const Tensor& x = c.operand(0);
  const auto [begin, end] = ir::shape_range(op, x.rank());
  Dims sizes(x.dims.begin() + static_cast<std::ptrdiff_t>(begin),
             x.dims.begin() + static_cast<std::ptrdiff_t>(end));
  const auto count = static_cast<std::int64_t>(sizes.size());
  return Tensors{i64_tensor({count}, std::move(sizes))};
}

Result<Tensors> eval_op(EvalContext& c, const ir::ConstantOfShape& op) {
  LLMC_RETURN_IF_ERROR(c.want_integer(0));
  if (!op.value || op.value->element_count() != 1) return c.error("value is not one element");
  LLMC_TRY(Tensor out, c.make(op.value->element(), c.operand(0).integers));
  const Tensor value = to_tensor(*op.value);
  with_data(out.element, [&](auto data) {
    std::fill((out.*data).begin(), (out.*data).end(), (value.*data)[0]);
  });
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Range&) {
  for (std::size_t i = 0; i < 3; ++i)
    if (c.operand(i).count() != 1 || c.operand(i).element != c.operand(0).element)
      return c.error("operands are not scalars of one type");
  const ir::ElementType element = c.operand(0).element;
  if (!c.operand(0).is_float()) {
    const std::int64_t start = c.operand(0).integers[0], limit = c.operand(1).integers[0];
    const std::int64_t step = c.operand(2).integers[0];
    if (step == 0) return c.error("the step is 0");
    const auto distance = checked_sub(limit, start);
    if (!distance || *distance == INT64_MIN) return c.error("the range is too long");
    const bool none = (step > 0) != (*distance > 0) || *distance == 0;
    const std::int64_t count = none ? 0 : *distance / step + (*distance % step != 0 ? 1 : 0);
    LLMC_TRY(Tensor out, c.make(element, {count}));
    for (std::int64_t i = 0; i < count; ++i) out.integers[index(i)] = start + i * step;
    return Tensors{std::move(out)};
  }
  return with_data(element, [&](auto data) -> Result<Tensors> {
    const auto number = [&](std::size_t i) { return static_cast<double>((c.operand(i).*data)[0]); };
    const double start = number(0), limit = number(1), step = number(2);
    const double count = std::max(0.0, std::ceil((limit - start) / step));
    if (!(count < 0x1p53))
      return c.error("the range is too long");  // also rejects NaN and infinity
    LLMC_TRY(Tensor out, c.make(element, {static_cast<std::int64_t>(count)}));
    using Element = typename std::remove_reference_t<decltype(out.*data)>::value_type;
    for (std::size_t i = 0; i < (out.*data).size(); ++i)
      (out.*data)[i] = static_cast<Element>(start + static_cast<double>(i) * step);
    return Tensors{std::move(out)};
  });
}

Result<Tensors> eval_op(EvalContext& c, const ir::Trilu& op) {
  const Tensor& x = c.operand(0);
  if (x.rank() < 2) return c.error("the operand has fewer than two dims");
  std::int64_t k = 0;
  if (c.has(1)) {
    LLMC_RETURN_IF_ERROR(c.want_integer(1));
    if (c.operand(1).count() != 1) return c.error("k is not a scalar");
    k = c.operand(1).integers[0];
  }
  LLMC_TRY(Tensor out, c.make(x.element, x.dims));
  const std::int64_t rows = x.dims[x.rank() - 2], columns = x.dims[x.rank() - 1];
  // Clamp k, because row + k must not overflow. Larger values have the same effect.
  k = std::clamp(k, -rows - 1, columns + 1);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t row = i / columns % rows, column = i % columns;
    const bool kept = op.upper ? column >= row + k : column <= row + k;
    if (kept) copy_elements(x, i, out, i, 1);
  }
  return Tensors{std::move(out)};
}

}  // namespace llmc::reference

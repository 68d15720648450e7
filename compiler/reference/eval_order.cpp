#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/reference/eval.h"

/// Evaluates operators that sort or accumulate elements along one dim.
namespace llmc::reference {
namespace {

using Dims = std::vector<std::int64_t>;

/// Returns a < b. NaN is larger than any number, as in NumPy. A u64 is stored as an int64 with the
/// same bits.
template <class T>
bool less(T a, T b, bool is_u64) {
  if constexpr (std::is_same_v<T, std::int64_t>) {
    return is_u64 ? static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b) : a < b;
  } else {
    return std::isnan(b) ? !std::isnan(a) : a < b;
  }
}

}  // namespace

Result<Tensors> eval_op(EvalContext& c, const ir::ArgMax& op) {
  const Tensor& x = c.operand(0);
  LLMC_TRY(const std::size_t axis, c.axis(op.axis, x.rank()));
  Dims dims = x.dims;
  if (op.keep_dims) {
    dims[axis] = 1;
  } else {
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  LLMC_TRY(Tensor out, c.make(ir::ElementType::kI64, std::move(dims)));
  if (out.count() == 0) return Tensors{std::move(out)};
  const std::int64_t size = x.dims[axis];
  if (size == 0) return c.error("the dim is empty");
  const bool is_u64 = x.element == ir::ElementType::kU64;
  with_data(x.element, [&](auto data) {
    const auto& values = x.*data;
    std::size_t line = 0;
    for_each_line(x.dims, axis, [&](std::int64_t offset, std::int64_t stride) {
      std::int64_t best = 0;
      for (std::int64_t j = 1; j < size; ++j) {
        const auto value = values[index(offset + j * stride)];
        const auto record = values[index(offset + best * stride)];
        const bool worse = op.minimum ? less(record, value, is_u64) : less(value, record, is_u64);
        const bool better = op.minimum ? less(value, record, is_u64) : less(record, value, is_u64);
        if (better || (op.last && !worse)) best = j;
      }
      out.integers[line++] = best;
    });
  });
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::TopK& op) {
  const Tensor& x = c.operand(0);
  LLMC_TRY(const std::size_t axis, c.axis(op.axis, x.rank()));
  LLMC_RETURN_IF_ERROR(c.want_integer(1));
  if (c.operand(1).count() != 1) return c.error("k is not one element");
  const std::int64_t k = c.operand(1).integers[0], size = x.dims[axis];
  if (k < 0 || k > size)
    return c.error("k = " + std::to_string(k) + " does not fit " + type_text(x));
  Dims dims = x.dims;
  dims[axis] = k;
  LLMC_TRY(Tensor values, c.make(x.element, dims));
  LLMC_TRY(Tensor indices, c.make(ir::ElementType::kI64, dims));
  if (values.count() == 0) return Tensors{std::move(values), std::move(indices)};
  const bool is_u64 = x.element == ir::ElementType::kU64;
  with_data(x.element, [&](auto data) {
    const auto& from = x.*data;
    std::vector<std::int64_t> order(index(size));
    std::vector<std::int64_t> starts;
    for_each_line(dims, axis, [&](std::int64_t offset, std::int64_t) { starts.push_back(offset); });
    std::size_t line = 0;
    for_each_line(x.dims, axis, [&](std::int64_t offset, std::int64_t stride) {
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        const auto p = from[index(offset + a * stride)], q = from[index(offset + b * stride)];
        if (op.largest ? less(q, p, is_u64) : less(p, q, is_u64)) return true;
        return !(op.largest ? less(p, q, is_u64) : less(q, p, is_u64)) && a < b;
      });
      for (std::int64_t j = 0; j < k; ++j) {
        const std::size_t to = index(starts[line] + j * stride);
        indices.integers[to] = order[index(j)];
        (values.*data)[to] = from[index(offset + order[index(j)] * stride)];
      }
      ++line;
    });
  });
  return Tensors{std::move(values), std::move(indices)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::CumSum& op) {
  const Tensor& x = c.operand(0);
  LLMC_TRY(const std::size_t axis, c.axis(op.axis, x.rank()));
  LLMC_TRY(Tensor out, c.make(x.element, x.dims));
  if (out.count() == 0) return Tensors{std::move(out)};
  const std::int64_t size = x.dims[axis];
  with_data(x.element, [&](auto data) {
    const auto& from = x.*data;
    auto& to = out.*data;
    using Element = typename std::remove_reference_t<decltype(to)>::value_type;
    for_each_line(x.dims, axis, [&](std::int64_t offset, std::int64_t stride) {
      // Floats are accumulated in double, integers as unsigned, whose overflow is defined.
      std::conditional_t<std::is_same_v<Element, std::int64_t>, std::uint64_t, double> sum = 0;
      for (std::int64_t j = 0; j < size; ++j) {
        const std::size_t at = index(offset + (op.reverse ? size - 1 - j : j) * stride);
        if (op.exclusive) to[at] = static_cast<Element>(sum);
        sum += static_cast<decltype(sum)>(from[at]);
        if (!op.exclusive) to[at] = static_cast<Element>(sum);
      }
    });
  });
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::NonZero&) {
  const Tensor& x = c.operand(0);
  if (x.rank() == 0) return c.error("the operand is a scalar");
  std::vector<std::int64_t> found;
  with_data(x.element, [&](auto data) {
    const auto& elements = x.*data;
    for (std::size_t i = 0; i < elements.size(); ++i)
      if (elements[i] != 0) found.push_back(static_cast<std::int64_t>(i));
  });
  const auto count = static_cast<std::int64_t>(found.size());
  LLMC_TRY(Tensor out, c.make(ir::ElementType::kI64, {static_cast<std::int64_t>(x.rank()), count}));
  std::size_t at = out.integers.size();
  for (std::size_t axis = x.rank(); axis-- > 0;) {
    for (std::size_t i = found.size(); i-- > 0;) {
      out.integers[--at] = found[i] % x.dims[axis];
      found[i] /= x.dims[axis];
    }
  }
  return Tensors{std::move(out)};
}

}  // namespace llmc::reference

#include <algorithm>
#include <limits>

#include "compiler/ir/shape_rules.h"
#include "compiler/reference/eval.h"
#include "compiler/reference/functions.h"
#include "compiler/reference/matrix.h"

/// Evaluates products and reductions.
namespace llmc::reference {
namespace {

using Dims = std::vector<std::int64_t>;
using ir::ReduceKind;

/// Computes c[m, n] = a[m, k] · b[k, n] in f64, adding products in order of k.
void multiply_doubles(const double* a, const double* b, double* c, std::int64_t m, std::int64_t k,
                      std::int64_t n) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
      c[i * n + j] = sum;
    }
}

/// Returns the transpose of a rows × columns matrix.
template <class T>
std::vector<T> turned(const std::vector<T>& x, std::int64_t rows, std::int64_t columns) {
  std::vector<T> out(x.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) out[index(j * rows + i)] = x[index(i * columns + j)];
  return out;
}

/// Computes c[m, n] = a[m, k] · b[k, n] with wrapping integer arithmetic. Not optimized: graphs use
/// it for small index tables.
void multiply_integers(const std::int64_t* a, const std::int64_t* b, std::int64_t* c,
                       std::int64_t m, std::int64_t k, std::int64_t n) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      std::uint64_t sum = 0;
      for (std::int64_t p = 0; p < k; ++p)
        sum += static_cast<std::uint64_t>(a[i * k + p]) * static_cast<std::uint64_t>(b[p * n + j]);
      c[i * n + j] = static_cast<std::int64_t>(sum);
    }
}

/// How a reduction combines elements, and its initial value for floats, integers and u64.
struct Reduction {
  ir::BinaryKind combine;
  double initial;
  std::int64_t initial_integer, initial_u64;
};
Reduction reduction(ReduceKind kind) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (kind) {
    case ReduceKind::kProd:
      return {ir::BinaryKind::kMul, 1, 1, 1};
    case ReduceKind::kMax:
      return {ir::BinaryKind::kMax, -kInfinity, INT64_MIN, 0};
    case ReduceKind::kMin:
      return {ir::BinaryKind::kMin, kInfinity, INT64_MAX, -1};
    default:
      return {ir::BinaryKind::kAdd, 0, 0, 0};
  }
}

}  // namespace

Result<Tensors> eval_op(EvalContext& c, const ir::MatMul&) {
  const Tensor &a = c.operand(0), &b = c.operand(1);
  if (a.element != b.element || a.rank() == 0 || b.rank() == 0)
    return c.error("cannot multiply " + type_text(a) + " and " + type_text(b));
  Dims ad = a.dims, bd = b.dims;
  const bool row = ad.size() == 1, column = bd.size() == 1;
  if (row) ad.insert(ad.begin(), 1);
  if (column) bd.push_back(1);
  const std::int64_t m = ad[ad.size() - 2], k = ad.back(), n = bd.back();
  LLMC_RETURN_IF_ERROR(c.want_equal(k, bd[bd.size() - 2], "inner dims differ"));
  const Dims a_batch(ad.begin(), ad.end() - 2), b_batch(bd.begin(), bd.end() - 2);
  LLMC_TRY(const Dims batch, broadcast_dims(c, a_batch, b_batch));
  Dims dims = batch;
  if (!row) dims.push_back(m);
  if (!column) dims.push_back(n);
  LLMC_TRY(Tensor out, c.make(a.element, std::move(dims)));
  if (out.count() == 0) return Tensors{std::move(out)};
  const auto one = [&](std::int64_t to, std::int64_t from_a, std::int64_t from_b,
                       std::int64_t rows) {
    if (a.element == ir::ElementType::kF64) {
      multiply_doubles(a.doubles.data() + from_a * m * k, b.doubles.data() + from_b * k * n,
                       out.doubles.data() + to * m * n, rows, k, n);
    } else if (a.is_float()) {
      multiply(a.floats.data() + from_a * m * k, b.floats.data() + from_b * k * n,
               out.floats.data() + to * m * n, rows, k, n);
    } else {
      multiply_integers(a.integers.data() + from_a * m * k, b.integers.data() + from_b * k * n,
                        out.integers.data() + to * m * n, rows, k, n);
    }
  };
  // If the right operand is a single matrix, the batch dims of the left operand are additional
  // rows.
  std::int64_t batches = 1;
  for (const std::int64_t size : batch) batches *= size;
  if (b_batch == Dims(b_batch.size(), 1) && a_batch == batch) {
    one(0, 0, 0, batches * m);
    return Tensors{std::move(out)};
  }
  for_each_run<3>(
      batch,
      {strides_of(batch), broadcast_strides(a_batch, batch), broadcast_strides(b_batch, batch)},
      [&](const auto& at, std::int64_t count, const auto& step) {
        for (std::int64_t i = 0; i < count; ++i)
          one(at[0] + i, at[1] + i * step[1], at[2] + i * step[2], m);
      });
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Gemm& op) {
  for (std::size_t i = 0; i < 2; ++i) LLMC_RETURN_IF_ERROR(c.want_rank(i, 2));
  const Tensor &a = c.operand(0), &b = c.operand(1);
  if (a.element != b.element || (c.has(2) && c.operand(2).element != a.element))
    return c.error("operands differ in element type");
  const std::int64_t m = a.dims[op.trans_a ? 1 : 0], k = a.dims[op.trans_a ? 0 : 1];
  const std::int64_t n = b.dims[op.trans_b ? 0 : 1];
  LLMC_RETURN_IF_ERROR(c.want_equal(k, b.dims[op.trans_b ? 1 : 0], "inner dims differ"));
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  LLMC_TRY(Tensor out, c.make(a.element, {m, n}));
  if (a.element == ir::ElementType::kF64) {
    const auto rows = op.trans_a ? turned(a.doubles, k, m) : a.doubles;
    const auto columns = op.trans_b ? turned(b.doubles, n, k) : b.doubles;
    multiply_doubles(rows.data(), columns.data(), out.doubles.data(), m, k, n);
  } else if (out.count() > 0) {
    const auto rows = op.trans_a ? turned(a.floats, k, m) : std::vector<float>();
    (op.trans_b ? multiply_transposed : multiply)(op.trans_a ? rows.data() : a.floats.data(),
                                                  b.floats.data(), out.floats.data(), m, k, n);
  }
  const auto finish = [&](auto data) -> Status {
    using Float = typename std::remove_reference_t<decltype(out.*data)>::value_type;
    const auto alpha = static_cast<Float>(op.alpha), beta = static_cast<Float>(op.beta);
    if (op.alpha != 1)
      for (auto& x : out.*data) x *= alpha;
    if (!c.has(2)) return ok_status();
    const Tensor& addend = c.operand(2);
    LLMC_TRY(const Dims dims, broadcast_dims(c, out.dims, addend.dims));
    if (dims != out.dims) return c.error("the addend does not broadcast to the product");
    for_each_run<2>(dims, {strides_of(dims), broadcast_strides(addend.dims, dims)},
                    [&](const auto& at, std::int64_t count, const auto& step) {
                      for (std::int64_t i = 0; i < count; ++i)
                        (out.*data)[index(at[0] + i)] +=
                            beta * (addend.*data)[index(at[1] + i * step[1])];
                    });
    return ok_status();
  };
  if (a.element == ir::ElementType::kF64) {
    LLMC_RETURN_IF_ERROR(finish(&Tensor::doubles));
  } else {
    LLMC_RETURN_IF_ERROR(finish(&Tensor::floats));
  }
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Softmax& op) {
  const Tensor& x = c.operand(0);
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  LLMC_TRY(const std::size_t axis, c.axis(op.axis, x.rank()));
  LLMC_TRY(Tensor out, c.make(x.element, x.dims));
  if (out.count() == 0) return Tensors{std::move(out)};
  std::vector<double> powers(index(x.dims[axis]));
  const auto softmax = [&](const auto& from, auto& to) {
    using Float = typename std::remove_reference_t<decltype(to)>::value_type;
    for_each_line(x.dims, axis, [&](std::int64_t offset, std::int64_t stride) {
      const auto at = [&](std::size_t j) { return index(offset) + j * index(stride); };
      Float largest = -std::numeric_limits<Float>::infinity();
      for (std::size_t j = 0; j < powers.size(); ++j) largest = std::max(largest, from[at(j)]);
      double sum = 0;
      // A row that contains only -inf gives NaN, as in the exporters' own runtimes.
      for (std::size_t j = 0; j < powers.size(); ++j)
        sum += powers[j] =
            exact_exp(static_cast<double>(from[at(j)]) - static_cast<double>(largest));
      for (std::size_t j = 0; j < powers.size(); ++j)
        to[at(j)] = static_cast<Float>(powers[j] / sum);
    });
  };
  x.element == ir::ElementType::kF64 ? softmax(x.doubles, out.doubles)
                                     : softmax(x.floats, out.floats);
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Reduce& op) {
  const Tensor& x = c.operand(0);
  auto axes = ir::normalize_axes(op.axes, x.rank());
  if (!axes) return c.error("the axes do not fit " + type_text(x));
  if (axes->empty())
    for (std::size_t i = 0; i < x.rank(); ++i) axes->push_back(i);
  Dims kept = x.dims, dims;
  std::int64_t group = 1;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    const bool reduced = std::binary_search(axes->begin(), axes->end(), i);
    if (reduced) group *= x.dims[i], kept[i] = 1;
    if (!reduced || op.keep_dims) dims.push_back(kept[i]);
  }
  LLMC_TRY(Tensor out, c.make(x.element, std::move(dims)));
  const std::array<Dims, 2> strides{broadcast_strides(kept, x.dims), strides_of(x.dims)};
  const Reduction reduce = reduction(op.kind);
  const auto on_floats = [&](const auto& from, auto& to) {
    using Float = typename std::remove_reference_t<decltype(to)>::value_type;
    std::vector<double> sums(to.size(), reduce.initial);
    for_each_run<2>(x.dims, strides, [&](const auto& at, std::int64_t n, const auto& step) {
      for (std::int64_t i = 0; i < n; ++i) {
        double& sum = sums[index(at[0] + i * step[0])];
        const auto element = static_cast<double>(from[index(at[1] + i)]);
        sum = apply_binary(reduce.combine, element, sum, false);
      }
    });
    const double divisor = op.kind == ReduceKind::kMean ? static_cast<double>(group) : 1.0;
    for (std::size_t i = 0; i < sums.size(); ++i) to[i] = static_cast<Float>(sums[i] / divisor);
  };
  if (x.is_float()) {
    x.element == ir::ElementType::kF64 ? on_floats(x.doubles, out.doubles)
                                       : on_floats(x.floats, out.floats);
    return Tensors{std::move(out)};
  }
  if (group == 0 && out.count() > 0 && op.kind != ReduceKind::kSum && op.kind != ReduceKind::kProd)
    return c.error("this reduction is undefined for integers of an empty dim");
  const bool is_u64 = x.element == ir::ElementType::kU64;
  std::ranges::fill(out.integers, is_u64 ? reduce.initial_u64 : reduce.initial_integer);
  for_each_run<2>(x.dims, strides, [&](const auto& at, std::int64_t n, const auto& step) {
    for (std::int64_t i = 0; i < n; ++i) {
      auto& sum = out.integers[index(at[0] + i * step[0])];
      sum = apply_binary(reduce.combine, x.integers[index(at[1] + i)], sum, is_u64);
    }
  });
  if (op.kind == ReduceKind::kMean)
    for (auto& sum : out.integers)
      sum = is_u64 ? static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) /
                                               static_cast<std::uint64_t>(group))
                   : sum / group;
  return Tensors{std::move(out)};
}

}  // namespace llmc::reference

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ir/shape_rules.h"
#include "compiler/reference/eval.h"
#include "compiler/reference/matrix.h"

/// Products and reductions.
namespace llmc::reference {
namespace {

using Dims = std::vector<std::int64_t>;
using ir::ReduceKind;

/// Around one axis: outer × size × inner elements.
struct AxisView {
  std::int64_t outer = 1, size = 1, inner = 1;
  AxisView(const Dims& dims, std::size_t axis) : size(dims[axis]) {
    for (std::size_t i = 0; i < axis; ++i) outer *= dims[i];
    for (std::size_t i = axis + 1; i < dims.size(); ++i) inner *= dims[i];
  }
};

/// Integer matrix product of small tables (index arithmetic); wraps.
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

/// Start and step of a reduction.
double initial(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kProd:
      return 1;
    case ReduceKind::kMax:
      return -std::numeric_limits<double>::infinity();
    case ReduceKind::kMin:
      return std::numeric_limits<double>::infinity();
    default:
      return 0;
  }
}
double combine(ReduceKind kind, double a, double x) {
  switch (kind) {
    case ReduceKind::kProd:
      return a * x;
    case ReduceKind::kMax:
      return x > a || std::isnan(x) ? x : a;
    case ReduceKind::kMin:
      return x < a || std::isnan(x) ? x : a;
    default:
      return a + x;
  }
}

std::int64_t combine(ReduceKind kind, std::int64_t a, std::int64_t x) {
  const auto ua = static_cast<std::uint64_t>(a), ux = static_cast<std::uint64_t>(x);
  switch (kind) {
    case ReduceKind::kProd:
      return static_cast<std::int64_t>(ua * ux);
    case ReduceKind::kMax:
      return std::max(a, x);
    case ReduceKind::kMin:
      return std::min(a, x);
    default:
      return static_cast<std::int64_t>(ua + ux);
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
    if (a.is_float()) {
      multiply(a.floats.data() + from_a * m * k, b.floats.data() + from_b * k * n,
               out.floats.data() + to * m * n, rows, k, n);
    } else {
      multiply_integers(a.integers.data() + from_a * m * k, b.integers.data() + from_b * k * n,
                        out.integers.data() + to * m * n, rows, k, n);
    }
  };
  // One matrix on the right: the batch of the left is just more rows.
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
  for (std::size_t i = 0; i < 2; ++i) {
    LLMC_RETURN_IF_ERROR(c.want_float(i));
    LLMC_RETURN_IF_ERROR(c.want_rank(i, 2));
  }
  const Tensor &a = c.operand(0), &b = c.operand(1);
  const std::int64_t m = a.dims[op.trans_a ? 1 : 0], k = a.dims[op.trans_a ? 0 : 1];
  const std::int64_t n = b.dims[op.trans_b ? 0 : 1];
  LLMC_RETURN_IF_ERROR(c.want_equal(k, b.dims[op.trans_b ? 1 : 0], "inner dims differ"));
  LLMC_TRY(Tensor out, c.make(a.element, {m, n}));
  std::vector<float> turned;
  const float* rows = a.floats.data();
  if (op.trans_a) {
    turned.resize(a.floats.size());
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < k; ++j)
        turned[static_cast<std::size_t>(i * k + j)] = a.floats[static_cast<std::size_t>(j * m + i)];
    rows = turned.data();
  }
  if (out.count() > 0)
    (op.trans_b ? multiply_transposed : multiply)(rows, b.floats.data(), out.floats.data(), m, k,
                                                  n);
  if (op.alpha != 1)
    for (float& x : out.floats) x *= op.alpha;
  if (c.has(2)) {
    LLMC_RETURN_IF_ERROR(c.want_float(2));
    const Tensor& addend = c.operand(2);
    LLMC_TRY(const Dims dims, broadcast_dims(c, out.dims, addend.dims));
    if (dims != out.dims) return c.error("the addend does not broadcast to the product");
    for_each_run<2>(dims, {strides_of(dims), broadcast_strides(addend.dims, dims)},
                    [&](const auto& at, std::int64_t count, const auto& step) {
                      for (std::int64_t i = 0; i < count; ++i)
                        out.floats[static_cast<std::size_t>(at[0] + i)] +=
                            op.beta * addend.floats[static_cast<std::size_t>(at[1] + i * step[1])];
                    });
  }
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Softmax& op) {
  const Tensor& x = c.operand(0);
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  LLMC_TRY(const std::size_t axis, c.axis(op.axis, x.rank()));
  LLMC_TRY(Tensor out, c.make(x.element, x.dims));
  if (out.count() == 0) return Tensors{std::move(out)};
  const AxisView view(x.dims, axis);
  std::vector<double> powers(static_cast<std::size_t>(view.size));
  for (std::int64_t o = 0; o < view.outer; ++o) {
    for (std::int64_t i = 0; i < view.inner; ++i) {
      const auto at = [&](std::int64_t j) {
        return static_cast<std::size_t>((o * view.size + j) * view.inner + i);
      };
      float largest = -std::numeric_limits<float>::infinity();
      for (std::int64_t j = 0; j < view.size; ++j) largest = std::max(largest, x.floats[at(j)]);
      double sum = 0;
      // A row of -inf only gives NaN, as in the exporters' own runtimes.
      for (std::int64_t j = 0; j < view.size; ++j)
        sum += powers[static_cast<std::size_t>(j)] =
            std::exp(static_cast<double>(x.floats[at(j)]) - static_cast<double>(largest));
      for (std::int64_t j = 0; j < view.size; ++j)
        out.floats[at(j)] = static_cast<float>(powers[static_cast<std::size_t>(j)] / sum);
    }
  }
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
  if (x.is_float()) {
    std::vector<double> sums(out.floats.size(), initial(op.kind));
    for_each_run<2>(x.dims, strides, [&](const auto& at, std::int64_t n, const auto& step) {
      for (std::int64_t i = 0; i < n; ++i) {
        double& sum = sums[static_cast<std::size_t>(at[0] + i * step[0])];
        sum = combine(op.kind, sum,
                      static_cast<double>(x.floats[static_cast<std::size_t>(at[1] + i)]));
      }
    });
    const double divisor = op.kind == ReduceKind::kMean ? static_cast<double>(group) : 1.0;
    for (std::size_t i = 0; i < sums.size(); ++i)
      out.floats[i] = static_cast<float>(sums[i] / divisor);
    return Tensors{std::move(out)};
  }
  if (group == 0 && out.count() > 0 && op.kind != ReduceKind::kSum && op.kind != ReduceKind::kProd)
    return c.error("integers of an empty dim have no such reduction");
  const std::int64_t first = op.kind == ReduceKind::kProd  ? 1
                             : op.kind == ReduceKind::kMax ? INT64_MIN
                             : op.kind == ReduceKind::kMin ? INT64_MAX
                                                           : 0;
  std::fill(out.integers.begin(), out.integers.end(), first);
  for_each_run<2>(x.dims, strides, [&](const auto& at, std::int64_t n, const auto& step) {
    for (std::int64_t i = 0; i < n; ++i) {
      auto& sum = out.integers[static_cast<std::size_t>(at[0] + i * step[0])];
      sum = combine(op.kind, sum, x.integers[static_cast<std::size_t>(at[1] + i)]);
    }
  });
  if (op.kind == ReduceKind::kMean)
    for (auto& sum : out.integers) sum /= group;
  return Tensors{std::move(out)};
}

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
  const AxisView view(x.dims, axis);
  if (view.size == 0 && out.count() > 0) return c.error("the dim is empty");
  const auto search = [&](const auto& values) {
    for (std::int64_t o = 0; o < view.outer; ++o)
      for (std::int64_t i = 0; i < view.inner; ++i) {
        const auto at = [&](std::int64_t j) {
          return values[static_cast<std::size_t>((o * view.size + j) * view.inner + i)];
        };
        std::int64_t best = 0;
        for (std::int64_t j = 1; j < view.size; ++j)
          if (at(j) > at(best)) best = j;
        out.integers[static_cast<std::size_t>(o * view.inner + i)] = best;
      }
  };
  if (out.count() > 0) x.is_float() ? search(x.floats) : search(x.integers);
  return Tensors{std::move(out)};
}

}  // namespace llmc::reference

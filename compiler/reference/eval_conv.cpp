#include "compiler/reference/eval.h"

/// Evaluates convolutions.
namespace llmc::reference {
namespace {

using Dims = std::vector<std::int64_t>;

/// Calls f(index) for every index into `dims`, in row-major order.
template <class F>
void for_each_index(const Dims& dims, F&& f) {
  Dims index(dims.size(), 0);
  for (const std::int64_t dim : dims)
    if (dim == 0) return;
  while (true) {
    f(index);
    std::size_t d = dims.size();
    while (d > 0 && ++index[d - 1] == dims[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace

Result<Tensors> eval_op(EvalContext& c, const ir::Conv& op) {
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  LLMC_RETURN_IF_ERROR(c.want_float(1));
  const Tensor &x = c.operand(0), &weight = c.operand(1);
  const std::size_t rank = x.rank();
  if (rank < 3 || weight.rank() != rank || weight.count() == 0 || op.groups < 1 ||
      weight.dims[0] % op.groups != 0 || op.strides.size() != rank - 2 ||
      op.dilations.size() != rank - 2)
    return c.error("cannot convolve " + type_text(x) + " with " + type_text(weight));
  const std::int64_t batch = x.dims[0], rows = weight.dims[0], channels = weight.dims[1];
  LLMC_RETURN_IF_ERROR(c.want_equal(x.dims[1], channels * op.groups, "number of input channels"));
  Dims dims{batch, rows}, positions, taps;
  for (std::size_t i = 2; i < rank; ++i) {
    const std::int64_t stride = op.strides[i - 2], dilation = op.dilations[i - 2];
    const std::int64_t rest = x.dims[i] - 1;
    if (stride < 1 || dilation < 1 || rest < 0 || (weight.dims[i] - 1) > rest / dilation)
      return c.error("the kernel " + type_text(weight) + " is larger than " + type_text(x));
    positions.push_back((rest - dilation * (weight.dims[i] - 1)) / stride + 1);
    taps.push_back(weight.dims[i]);
    dims.push_back(positions.back());
  }
  LLMC_TRY(Tensor out, c.make(x.element, std::move(dims)));
  const Dims strides = strides_of(x.dims), weight_strides = strides_of(weight.dims);
  std::size_t next = 0;
  for (std::int64_t n = 0; n < batch; ++n)
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t first = row / (rows / op.groups) * channels;
      for_each_index(positions, [&](const Dims& position) {
        double sum = 0;
        for (std::int64_t k = 0; k < channels; ++k) {
          std::int64_t w = row * weight_strides[0] + k * weight_strides[1];
          for_each_index(taps, [&](const Dims& tap) {
            std::int64_t at = n * strides[0] + (first + k) * strides[1];
            for (std::size_t i = 0; i < tap.size(); ++i)
              at += (position[i] * op.strides[i] + tap[i] * op.dilations[i]) * strides[i + 2];
            sum += static_cast<double>(x.floats[index(at)]) *
                   static_cast<double>(weight.floats[index(w++)]);
          });
        }
        out.floats[next++] = static_cast<float>(sum);
      });
    }
  return Tensors{std::move(out)};
}

}  // namespace llmc::reference

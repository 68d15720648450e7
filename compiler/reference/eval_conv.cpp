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

/// Returns the number of positions of a kernel of `taps` elements along a dim; nullopt if it does
/// not fit.
std::optional<std::int64_t> positions_of(std::int64_t size, std::int64_t taps, std::int64_t stride,
                                         std::int64_t dilation) {
  if (size < 1 || taps < 1 || stride < 1 || dilation < 1 || taps - 1 > (size - 1) / dilation)
    return std::nullopt;
  return (size - 1 - dilation * (taps - 1)) / stride + 1;
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
    const auto count =
        positions_of(x.dims[i], weight.dims[i], op.strides[i - 2], op.dilations[i - 2]);
    if (!count)
      return c.error("the kernel " + type_text(weight) + " is larger than " + type_text(x));
    positions.push_back(*count);
    taps.push_back(weight.dims[i]);
    dims.push_back(*count);
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

Result<Tensors> eval_op(EvalContext& c, const ir::DepthwiseConv& op) {
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  LLMC_RETURN_IF_ERROR(c.want_float(1));
  const Tensor &x = c.operand(0), &weight = c.operand(1);
  const std::size_t spatial = op.strides.size();
  if (spatial < 1 || x.rank() != spatial + 2 || weight.rank() != spatial + 1 ||
      weight.count() == 0 || op.dilations.size() != spatial)
    return c.error("cannot convolve " + type_text(x) + " with " + type_text(weight));
  const std::int64_t channels = weight.dims.back();
  LLMC_RETURN_IF_ERROR(c.want_equal(x.dims.back(), channels, "number of channels"));
  Dims dims{x.dims[0]}, positions;
  const Dims taps(weight.dims.begin(), weight.dims.end() - 1);
  for (std::size_t i = 0; i < spatial; ++i) {
    const auto count = positions_of(x.dims[i + 1], taps[i], op.strides[i], op.dilations[i]);
    if (!count)
      return c.error("the kernel " + type_text(weight) + " is larger than " + type_text(x));
    positions.push_back(*count);
    dims.push_back(*count);
  }
  dims.push_back(channels);
  LLMC_TRY(Tensor out, c.make(x.element, std::move(dims)));
  const Dims strides = strides_of(x.dims);
  std::size_t next = 0;
  for (std::int64_t n = 0; n < x.dims[0]; ++n)
    for_each_index(positions, [&](const Dims& position) {
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        double sum = 0;
        std::int64_t w = channel;
        for_each_index(taps, [&](const Dims& tap) {
          std::int64_t at = n * strides[0] + channel;
          for (std::size_t i = 0; i < spatial; ++i)
            at += (position[i] * op.strides[i] + tap[i] * op.dilations[i]) * strides[i + 1];
          sum += static_cast<double>(x.floats[index(at)]) *
                 static_cast<double>(weight.floats[index(w)]);
          w += channels;
        });
        out.floats[next++] = static_cast<float>(sum);
      }
    });
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Unfold& op) {
  const Tensor& x = c.operand(0);
  const std::size_t spatial = op.kernel.size();
  if (x.rank() != spatial + 2 || op.strides.size() != spatial || op.dilations.size() != spatial)
    return c.error("cannot unfold " + type_text(x));
  Dims dims{x.dims[0]}, positions, taps = op.kernel;
  taps.push_back(x.dims.back());
  std::int64_t elements = x.dims.back();
  for (std::size_t i = 0; i < spatial; ++i) {
    const auto count = positions_of(x.dims[i + 1], op.kernel[i], op.strides[i], op.dilations[i]);
    if (!count) return c.error("the kernel is larger than " + type_text(x));
    positions.push_back(*count);
    dims.push_back(*count);
    elements *= op.kernel[i];  // at most the elements of x
  }
  dims.push_back(elements);
  LLMC_TRY(Tensor out, c.make(x.element, std::move(dims)));
  const Dims strides = strides_of(x.dims);
  std::size_t next = 0;
  with_data(x.element, [&](auto data) {
    for (std::int64_t n = 0; n < x.dims[0]; ++n)
      for_each_index(positions, [&](const Dims& position) {
        for_each_index(taps, [&](const Dims& tap) {
          std::int64_t at = n * strides[0] + tap.back();
          for (std::size_t i = 0; i < spatial; ++i)
            at += (position[i] * op.strides[i] + tap[i] * op.dilations[i]) * strides[i + 1];
          (out.*data)[next++] = (x.*data)[index(at)];
        });
      });
  });
  return Tensors{std::move(out)};
}

}  // namespace llmc::reference

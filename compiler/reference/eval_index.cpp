#include <algorithm>
#include <optional>

#include "compiler/reference/eval.h"
#include "compiler/support/checked_math.h"

/// Evaluates operators that select and place elements by index, and Pad.
namespace llmc::reference {
namespace {

using Dims = std::vector<std::int64_t>;
using ir::ScatterReduction;

/// Returns an index into a dim of `size` elements, counted from the front; nullopt if it is out of
/// range. Negative indices count from the end.
std::optional<std::int64_t> normal_index(std::int64_t i, std::int64_t size) {
  if (i < -size || i >= size) return std::nullopt;
  return i < 0 ? i + size : i;
}

Diagnostic outside(const EvalContext& c, std::int64_t i, std::size_t dim) {
  return c.error("index " + std::to_string(i) + " is outside dim " + std::to_string(dim) + " of " +
                 type_text(c.operand(0)));
}

/// Returns, for each element of the indices (operand 1), the offset of the element of operand 0 to
/// which it refers: the element at the same position, but with the index as its coordinate along
/// `axis`.
Result<std::vector<std::int64_t>> element_positions(EvalContext& c, std::size_t axis) {
  const Tensor &data = c.operand(0), &indices = c.operand(1);
  LLMC_RETURN_IF_ERROR(c.want_integer(1));
  LLMC_RETURN_IF_ERROR(c.want_rank(1, data.rank()));
  for (std::size_t d = 0; d < data.rank(); ++d)
    if (d != axis && indices.dims[d] > data.dims[d])
      return c.error("the indices are longer than the data along dim " + std::to_string(d));
  const Dims strides = strides_of(data.dims);
  std::vector<std::int64_t> positions(indices.integers.size());
  Dims at(indices.rank(), 0);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto picked = normal_index(indices.integers[i], data.dims[axis]);
    if (!picked) return outside(c, indices.integers[i], axis);
    std::int64_t position = *picked * strides[axis];
    for (std::size_t d = 0; d < at.size(); ++d)
      if (d != axis) position += at[d] * strides[d];
    positions[i] = position;
    for (std::size_t d = at.size(); d-- > 0 && ++at[d] == indices.dims[d];) at[d] = 0;
  }
  return positions;
}

/// Slices of operand 0 that the index tuples in operand 1 address.
struct SlicePositions {
  std::vector<std::int64_t> offsets;  // one per tuple: the slice's first element in the data
  Dims tuple_dims;                    // dims of the indices except the last
  Dims slice_dims;                    // dims of the data after the addressed ones
  std::int64_t slice = 1;             // number of elements in a slice
};

/// Returns the slices that the tuples address. The first `batch` dims of data and indices
/// correspond to each other; a tuple addresses the following dims of the data.
Result<SlicePositions> slice_positions(EvalContext& c, std::size_t batch) {
  const Tensor &data = c.operand(0), &indices = c.operand(1);
  LLMC_RETURN_IF_ERROR(c.want_integer(1));
  if (indices.rank() == 0 || batch >= indices.rank() || batch > data.rank() ||
      indices.dims.back() > static_cast<std::int64_t>(data.rank() - batch))
    return c.error("the indices " + type_text(indices) + " do not address " + type_text(data));
  for (std::size_t d = 0; d < batch; ++d)
    LLMC_RETURN_IF_ERROR(c.want_equal(data.dims[d], indices.dims[d], "a batch dim differs"));
  const std::int64_t length = indices.dims.back();
  const std::size_t first_kept = batch + index(length);
  SlicePositions out;
  out.tuple_dims.assign(indices.dims.begin(), indices.dims.end() - 1);
  out.slice_dims.assign(data.dims.begin() + static_cast<std::ptrdiff_t>(first_kept),
                        data.dims.end());
  for (const std::int64_t size : out.slice_dims) out.slice *= size;
  const Dims strides = strides_of(data.dims);
  const std::int64_t tuples = *checked_product(out.tuple_dims);
  std::int64_t per_batch = 1, batches = 1;
  for (std::size_t d = 0; d < out.tuple_dims.size(); ++d)
    (d < batch ? batches : per_batch) *= out.tuple_dims[d];
  const std::int64_t batch_stride = batch > 0 ? strides[batch - 1] : 0;
  LLMC_RETURN_IF_ERROR(c.reserve(ir::ElementType::kI64, {tuples}));
  for (std::int64_t t = 0; t < tuples; ++t) {
    std::int64_t offset = per_batch > 0 ? t / per_batch * batch_stride : 0;
    for (std::int64_t k = 0; k < length; ++k) {
      const std::size_t dim = batch + index(k);
      const std::int64_t i = indices.integers[index(t * length + k)];
      const auto picked = normal_index(i, data.dims[dim]);
      if (!picked) return outside(c, i, dim);
      offset += *picked * strides[dim];
    }
    out.offsets.push_back(offset);
  }
  return out;
}

/// Returns the operator that combines an existing element with an update; nullopt for kNone.
std::optional<ir::BinaryKind> combining(ScatterReduction reduction) {
  switch (reduction) {
    case ScatterReduction::kNone:
      return std::nullopt;
    case ScatterReduction::kAdd:
      return ir::BinaryKind::kAdd;
    case ScatterReduction::kMul:
      return ir::BinaryKind::kMul;
    case ScatterReduction::kMin:
      return ir::BinaryKind::kMin;
    case ScatterReduction::kMax:
      return ir::BinaryKind::kMax;
  }
  return std::nullopt;
}

/// Scatters the updates to `out`. The interpreter wraps or rounds narrow types after all updates.
void scatter(ScatterReduction reduction, Tensor& out, const Tensor& updates,
             const std::vector<std::int64_t>& offsets, std::int64_t slice) {
  const bool is_u64 = out.element == ir::ElementType::kU64;
  const auto kind = combining(reduction);
  with_data(out.element, [&](auto data) {
    std::size_t from = 0;
    for (const std::int64_t offset : offsets)
      for (std::int64_t i = 0; i < slice; ++i) {
        auto& element = (out.*data)[index(offset + i)];
        const auto update = (updates.*data)[from++];
        element = kind ? apply_binary(*kind, element, update, is_u64) : update;
      }
  });
}

Status want_updates(const EvalContext& c, const Dims& dims) {
  const Tensor& updates = c.operand(2);
  if (updates.element == c.operand(0).element && updates.dims == dims) return ok_status();
  return c.error("the updates " + type_text(updates) + " do not fit");
}

/// Returns the source of element i of a padded dim: an index into the dim, or -1 for the pad value.
/// `size` > 0 unless the mode is constant.
std::int64_t pad_source(ir::PadMode mode, std::int64_t i, std::int64_t size) {
  if (i >= 0 && i < size) return i;
  switch (mode) {
    case ir::PadMode::kConstant:
      return -1;
    case ir::PadMode::kEdge:
      return i < 0 ? 0 : size - 1;
    case ir::PadMode::kWrap:
      return (i % size + size) % size;
    case ir::PadMode::kReflect: {
      if (size == 1) return 0;
      const std::int64_t period = 2 * (size - 1);
      const std::int64_t phase = (i % period + period) % period;
      return phase < size ? phase : period - phase;
    }
  }
  return -1;
}

}  // namespace

Result<Tensors> eval_op(EvalContext& c, const ir::GatherElements& op) {
  const Tensor& data = c.operand(0);
  LLMC_TRY(const std::size_t axis, c.axis(op.axis, data.rank()));
  LLMC_TRY(Tensor out, c.make(data.element, c.operand(1).dims));
  LLMC_TRY(const auto positions, element_positions(c, axis));
  with_data(data.element, [&](auto member) {
    for (std::size_t i = 0; i < positions.size(); ++i)
      (out.*member)[i] = (data.*member)[index(positions[i])];
  });
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::GatherNd& op) {
  const Tensor& data = c.operand(0);
  if (op.batch_dims < 0) return c.error("batch_dims is negative");
  LLMC_TRY(const auto slices, slice_positions(c, index(op.batch_dims)));
  Dims dims = slices.tuple_dims;
  dims.insert(dims.end(), slices.slice_dims.begin(), slices.slice_dims.end());
  LLMC_TRY(Tensor out, c.make(data.element, std::move(dims)));
  if (out.count() == 0) return Tensors{std::move(out)};
  with_data(data.element, [&](auto member) {
    auto to = (out.*member).begin();
    for (const std::int64_t offset : slices.offsets)
      to = std::copy_n((data.*member).begin() + offset, slices.slice, to);
  });
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::ScatterElements& op) {
  const Tensor& data = c.operand(0);
  LLMC_TRY(const std::size_t axis, c.axis(op.axis, data.rank()));
  LLMC_RETURN_IF_ERROR(want_updates(c, c.operand(1).dims));
  LLMC_TRY(const auto positions, element_positions(c, axis));
  LLMC_TRY(Tensor out, c.make(data.element, data.dims));
  with_data(data.element, [&](auto member) { out.*member = data.*member; });
  scatter(op.reduction, out, c.operand(2), positions, 1);
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::ScatterNd& op) {
  const Tensor& data = c.operand(0);
  LLMC_TRY(const auto slices, slice_positions(c, 0));
  Dims wanted = slices.tuple_dims;
  wanted.insert(wanted.end(), slices.slice_dims.begin(), slices.slice_dims.end());
  LLMC_RETURN_IF_ERROR(want_updates(c, wanted));
  LLMC_TRY(Tensor out, c.make(data.element, data.dims));
  with_data(data.element, [&](auto member) { out.*member = data.*member; });
  scatter(op.reduction, out, c.operand(2), slices.offsets, slices.slice);
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Pad& op) {
  const Tensor& x = c.operand(0);
  LLMC_RETURN_IF_ERROR(c.want_integer(1));
  const auto& pads = c.operand(1).integers;
  LLMC_RETURN_IF_ERROR(c.want_equal(c.operand(1).count(), static_cast<std::int64_t>(2 * x.rank()),
                                    "number of pads"));
  if (c.has(2) && (c.operand(2).element != x.element || c.operand(2).count() != 1))
    return c.error("the value is not one element of the operand's type");
  // The dims of the result.
  Dims dims;
  for (std::size_t d = 0; d < x.rank(); ++d) {
    const auto front = checked_add(x.dims[d], pads[d]);
    const auto size = front ? checked_add(*front, pads[d + x.rank()]) : std::nullopt;
    if (!size || *size < 0) return c.error("a pad is out of range");
    if (op.mode != ir::PadMode::kConstant && x.dims[d] == 0 && *size > 0)
      return c.error("an empty dim has no element to pad with");
    dims.push_back(*size);
  }
  LLMC_TRY(Tensor out, c.make(x.element, dims));
  if (out.count() == 0) return Tensors{std::move(out)};
  const Dims from = strides_of(x.dims);
  with_data(x.element, [&](auto member) {
    using Element = typename std::remove_reference_t<decltype(out.*member)>::value_type;
    const Element value = c.has(2) ? (c.operand(2).*member)[0] : Element{};
    Dims at(x.rank(), 0);
    for (auto& element : out.*member) {
      std::int64_t source = 0;
      for (std::size_t d = 0; d < at.size() && source >= 0; ++d) {
        const std::int64_t i = pad_source(op.mode, at[d] - pads[d], x.dims[d]);
        source = i < 0 ? -1 : source + i * from[d];
      }
      element = source < 0 ? value : (x.*member)[index(source)];
      for (std::size_t d = at.size(); d-- > 0 && ++at[d] == dims[d];) at[d] = 0;
    }
  });
  return Tensors{std::move(out)};
}

}  // namespace llmc::reference


#include "compiler/ir/infer_rules.h"
#include "compiler/ir/shape_rules.h"

/// Type inference of operators that select, place, sort or accumulate elements along dims.
namespace llmc::ir {
namespace {

/// Checks operand 1, indices of single elements of operand 0 along `axis`.
Status want_element_indices(const InferContext& c, std::size_t axis) {
  LLMC_RETURN_IF_ERROR(c.want_integer(1));
  LLMC_RETURN_IF_ERROR(c.want_rank(1, c.rank(0)));
  for (std::size_t i = 0; i < c.rank(0); ++i) {
    const Dim &data = c.type(0).dims[i], &index = c.type(1).dims[i];
    const auto beyond = sub(index, data);
    if (i != axis && beyond && beyond->is_constant() && *beyond->constant() > 0)
      return c.error("the indices are longer than the data along dim " + std::to_string(i));
  }
  return ok_status();
}

/// Returns the number of dims of operand 0, from `first` on, that an index tuple (last dim of
/// operand 1) addresses.
Result<std::size_t> tuple_length(const InferContext& c, std::size_t first) {
  LLMC_RETURN_IF_ERROR(c.want_integer(1));
  if (c.rank(1) == 0) return c.error("the indices are a scalar");
  const auto length = c.type(1).dims.back().constant();
  if (!length) return c.error("the last dim of the indices is not known at compile time");
  if (*length < 0 || first > c.rank(0) || *length > static_cast<std::int64_t>(c.rank(0) - first))
    return c.error("the indices address " + std::to_string(*length) + " dims of " +
                   to_string(c.type(0)));
  return static_cast<std::size_t>(*length);
}

Status want_element(const InferContext& c, std::size_t i, ElementType element) {
  if (c.type(i).element == element) return ok_status();
  return c.error("operand " + std::to_string(i) + " is " + to_string(c.type(i)) + ", not " +
                 std::string(to_string(element)));
}

Status want_scatter_element(const InferContext& c, ScatterReduction reduction) {
  LLMC_RETURN_IF_ERROR(want_element(c, 2, c.type(0).element));
  if (reduction != ScatterReduction::kNone && c.type(0).element == ElementType::kBool)
    return c.error("bools cannot be combined");
  return ok_status();
}

}  // namespace

Result<Types> infer_op(const InferContext& c, const GatherElements& op) {
  LLMC_TRY(const std::size_t axis, c.axis(op.axis));
  LLMC_RETURN_IF_ERROR(want_element_indices(c, axis));
  return Types{{c.type(0).element, c.type(1).dims}};
}

Result<Types> infer_op(const InferContext& c, const GatherNd& op) {
  const auto &data = c.type(0), &indices = c.type(1);
  if (op.batch_dims < 0 || op.batch_dims >= static_cast<std::int64_t>(indices.rank()))
    return c.error("batch_dims does not fit " + to_string(indices));
  const auto batch = static_cast<std::size_t>(op.batch_dims);
  LLMC_TRY(const std::size_t length, tuple_length(c, batch));
  for (std::size_t i = 0; i < batch; ++i)
    LLMC_RETURN_IF_ERROR(c.want_equal(data.dims[i], indices.dims[i], "a batch dim differs"));
  TensorType out{data.element, {indices.dims.begin(), indices.dims.end() - 1}};
  out.dims.insert(out.dims.end(), data.dims.begin() + static_cast<std::ptrdiff_t>(batch + length),
                  data.dims.end());
  return Types{std::move(out)};
}

Result<Types> infer_op(const InferContext& c, const ScatterElements& op) {
  LLMC_TRY(const std::size_t axis, c.axis(op.axis));
  LLMC_RETURN_IF_ERROR(want_element_indices(c, axis));
  LLMC_RETURN_IF_ERROR(want_scatter_element(c, op.reduction));
  LLMC_RETURN_IF_ERROR(c.want_rank(2, c.rank(1)));
  for (std::size_t i = 0; i < c.rank(1); ++i)
    LLMC_RETURN_IF_ERROR(
        c.want_equal(c.type(1).dims[i], c.type(2).dims[i], "indices and updates differ"));
  return Types{c.type(0)};
}

Result<Types> infer_op(const InferContext& c, const ScatterNd& op) {
  const auto &data = c.type(0), &indices = c.type(1), &updates = c.type(2);
  LLMC_TRY(const std::size_t length, tuple_length(c, 0));
  LLMC_RETURN_IF_ERROR(want_scatter_element(c, op.reduction));
  std::vector<Dim> wanted(indices.dims.begin(), indices.dims.end() - 1);
  wanted.insert(wanted.end(), data.dims.begin() + static_cast<std::ptrdiff_t>(length),
                data.dims.end());
  LLMC_RETURN_IF_ERROR(c.want_rank(2, wanted.size()));
  for (std::size_t i = 0; i < wanted.size(); ++i)
    LLMC_RETURN_IF_ERROR(c.want_equal(wanted[i], updates.dims[i], "the updates do not fit"));
  return Types{data};
}

Result<Types> infer_op(const InferContext& c, const Pad&) {
  TensorType out = c.type(0);
  LLMC_RETURN_IF_ERROR(c.want_integer(1));
  LLMC_RETURN_IF_ERROR(c.want_rank(1, 1));
  const auto rank = static_cast<std::int64_t>(out.rank());
  LLMC_RETURN_IF_ERROR(c.want_equal(c.type(1).dims[0], Dim(2 * rank), "number of pads"));
  if (c.has(2)) {
    LLMC_RETURN_IF_ERROR(want_element(c, 2, out.element));
    if (element_count(c.type(2)) != 1) return c.error("the value is not one element");
  }
  const auto* pads = c.values(1);
  for (std::size_t i = 0; i < out.rank(); ++i) {
    std::optional<Dim> size;
    if (pads && pads->size() == 2 * out.rank()) {
      size = add(out.dims[i], (*pads)[i]);
      if (size) size = add(*size, (*pads)[i + out.rank()]);
    }
    out.dims[i] = size ? *size : c.fresh();
  }
  return Types{std::move(out)};
}

Result<Types> infer_op(const InferContext& c, const TopK& op) {
  TensorType values = c.type(0);
  LLMC_TRY(const std::size_t axis, c.axis(op.axis));
  LLMC_RETURN_IF_ERROR(c.want_integer(1));
  if (values.element == ElementType::kBool) return c.error("the operand is bool");
  if (element_count(c.type(1)) != 1) return c.error("k is not one element");
  const auto* k = c.values(1);
  if (k && k->size() == 1) {
    const auto room = sub(values.dims[axis], k->front());
    if (is_negative(k->front()) || (room && room->is_constant() && *room->constant() < 0))
      return c.error("k = " + k->front().to_string() + " does not fit " + to_string(values));
    values.dims[axis] = k->front();
  } else {
    values.dims[axis] = c.fresh();
  }
  TensorType indices{ElementType::kI64, values.dims};
  return Types{std::move(values), std::move(indices)};
}

Result<Types> infer_op(const InferContext& c, const CumSum& op) {
  LLMC_TRY([[maybe_unused]] const std::size_t axis, c.axis(op.axis));
  if (c.type(0).element == ElementType::kBool) return c.error("the operand is bool");
  return Types{c.type(0)};
}

Result<Types> infer_op(const InferContext& c, const NonZero&) {
  if (c.rank(0) == 0) return c.error("the operand is a scalar");
  return Types{{ElementType::kI64, {Dim(static_cast<std::int64_t>(c.rank(0))), c.fresh()}}};
}

}  // namespace llmc::ir

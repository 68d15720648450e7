#include "compiler/ir/infer_rules.h"
#include "compiler/ir/shape_rules.h"

/// Type inference of elementwise operators, products and reductions.
namespace llmc::ir {
namespace {

/// Checks that both operands of an elementwise operator have the same element type.
Status want_same_element(const InferContext& c, std::size_t a, std::size_t b) {
  if (c.type(a).element == c.type(b).element) return ok_status();
  return c.error("operands differ in element type: " + to_string(c.type(a)) + " against " +
                 to_string(c.type(b)));
}

bool is_comparison(BinaryKind kind) {
  return kind >= BinaryKind::kEqual && kind <= BinaryKind::kGreaterOrEqual;
}

TensorType reduced(const TensorType& x, const std::vector<std::size_t>& axes, bool keep_dims) {
  TensorType out{x.element, {}};
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (!std::binary_search(axes.begin(), axes.end(), i)) {
      out.dims.push_back(x.dims[i]);
    } else if (keep_dims) {
      out.dims.push_back(Dim(1));
    }
  }
  return out;
}

}  // namespace

Result<Types> infer_op(const InferContext& c, const Unary& op) {
  TensorType out = c.type(0);
  switch (op.kind) {
    case UnaryKind::kIdentity:
      break;
    case UnaryKind::kNot:
      if (out.element != ElementType::kBool) return c.error("the operand is not bool");
      break;
    case UnaryKind::kIsNan:
    case UnaryKind::kIsInf:
      LLMC_RETURN_IF_ERROR(c.want_float(0));
      out.element = ElementType::kBool;
      break;
    case UnaryKind::kNeg:
    case UnaryKind::kAbs:
    case UnaryKind::kRelu:
    case UnaryKind::kSign:
      if (out.element == ElementType::kBool) return c.error("the operand is bool");
      break;
    default:
      LLMC_RETURN_IF_ERROR(c.want_float(0));
  }
  return Types{std::move(out)};
}

Result<Types> infer_op(const InferContext& c, const Binary& op) {
  ElementType element = c.type(0).element;
  const bool logical =
      op.kind == BinaryKind::kAnd || op.kind == BinaryKind::kOr || op.kind == BinaryKind::kXor;
  // The exponent of a power may have another type.
  if (op.kind != BinaryKind::kPow) LLMC_RETURN_IF_ERROR(want_same_element(c, 0, 1));
  if (logical && element != ElementType::kBool) return c.error("the operands are not bool");
  if (!logical && op.kind != BinaryKind::kEqual && element == ElementType::kBool)
    return c.error("the operands are bool");
  LLMC_TRY(auto dims, c.broadcast(c.type(0).dims, c.type(1).dims));
  if (is_comparison(op.kind)) element = ElementType::kBool;
  return Types{{element, std::move(dims)}};
}

Result<Types> infer_op(const InferContext& c, const Where&) {
  if (c.type(0).element != ElementType::kBool) return c.error("the condition is not bool");
  LLMC_RETURN_IF_ERROR(want_same_element(c, 1, 2));
  LLMC_TRY(auto branches, c.broadcast(c.type(1).dims, c.type(2).dims));
  LLMC_TRY(auto dims, c.broadcast(c.type(0).dims, branches));
  return Types{{c.type(1).element, std::move(dims)}};
}

Result<Types> infer_op(const InferContext& c, const MatMul&) {
  auto a = c.type(0).dims, b = c.type(1).dims;
  LLMC_RETURN_IF_ERROR(want_same_element(c, 0, 1));
  if (a.empty() || b.empty()) return c.error("an operand is a scalar");
  // As in numpy, a left vector is a row and a right vector a column; the added dim is removed from
  // the result.
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), Dim(1));
  if (column) b.push_back(Dim(1));
  LLMC_RETURN_IF_ERROR(c.want_equal(a.back(), b[b.size() - 2], "inner dims differ"));
  const Dim m = a[a.size() - 2], n = b.back();
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  LLMC_TRY(auto dims, c.broadcast(a, b));
  if (!row) dims.push_back(m);
  if (!column) dims.push_back(n);
  return Types{{c.type(0).element, std::move(dims)}};
}

Result<Types> infer_op(const InferContext& c, const Gemm& op) {
  LLMC_RETURN_IF_ERROR(c.want_rank(0, 2));
  LLMC_RETURN_IF_ERROR(c.want_rank(1, 2));
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  LLMC_RETURN_IF_ERROR(want_same_element(c, 0, 1));
  const auto &a = c.type(0).dims, &b = c.type(1).dims;
  LLMC_RETURN_IF_ERROR(
      c.want_equal(a[op.trans_a ? 0 : 1], b[op.trans_b ? 1 : 0], "inner dims differ"));
  TensorType out{c.type(0).element, {a[op.trans_a ? 1 : 0], b[op.trans_b ? 0 : 1]}};
  if (c.has(2)) {
    LLMC_RETURN_IF_ERROR(want_same_element(c, 0, 2));
    LLMC_TRY(auto dims, c.broadcast(out.dims, c.type(2).dims));
    bool fits = dims.size() == 2;
    for (std::size_t i = 0; fits && i < 2; ++i) fits = compatible(dims[i], out.dims[i]);
    if (!fits) return c.error("the addend does not broadcast to " + to_string(out));
  }
  return Types{std::move(out)};
}

namespace {

constexpr std::int64_t kMaxStep = std::int64_t{1} << 31;

/// Returns the number of positions of a kernel of `taps` elements along a dim of operand 0.
Result<Dim> window_positions(const InferContext& c, const Dim& size, std::int64_t taps,
                             std::int64_t stride, std::int64_t dilation) {
  if (stride < 1 || dilation < 1 || stride > kMaxStep || dilation > kMaxStep)
    return c.error("a stride or dilation is not between 1 and " + std::to_string(kMaxStep));
  const auto last = sub(size, Dim(dilation * (taps - 1) + 1));
  if (last && last->is_constant() && last->constant_part() < 0)
    return c.error("a kernel of " + std::to_string(taps) + " elements is larger than a dim of " +
                   to_string(c.type(0)));
  const auto steps = last ? div_floor(*last, stride) : std::nullopt;
  const auto positions = steps ? add(*steps, Dim(1)) : std::nullopt;
  return positions ? *positions : c.fresh();
}

/// Checks the operands of a convolution, whose weight has `rank_difference` dims less than x, and
/// returns the dims of the weight.
Result<std::vector<std::int64_t>> weight_dims(const InferContext& c,
                                              const std::vector<std::int64_t>& strides,
                                              const std::vector<std::int64_t>& dilations,
                                              std::size_t rank_difference) {
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  LLMC_RETURN_IF_ERROR(want_same_element(c, 0, 1));
  const TensorType &x = c.type(0), &weight = c.type(1);
  if (x.rank() < 3) return c.error(to_string(x) + " has no spatial dims");
  LLMC_RETURN_IF_ERROR(c.want_rank(1, x.rank() - rank_difference));
  const std::size_t spatial = x.rank() - 2;
  if (strides.size() != spatial || dilations.size() != spatial)
    return c.error("strides and dilations need one number for each spatial dim of " + to_string(x));
  std::vector<std::int64_t> dims;
  for (const Dim& dim : weight.dims) {
    const auto size = dim.constant();
    if (!size || *size < 1 || *size > kMaxStep)
      return c.error("the dims of the weight " + to_string(weight) + " are not positive numbers");
    dims.push_back(*size);
  }
  return dims;
}

}  // namespace

Result<Types> infer_op(const InferContext& c, const Conv& op) {
  LLMC_TRY(const std::vector<std::int64_t> taps, weight_dims(c, op.strides, op.dilations, 0));
  const TensorType& x = c.type(0);
  if (op.groups < 1 || op.groups > kMaxStep || taps[0] % op.groups != 0)
    return c.error(std::to_string(taps[0]) + " channels do not divide into " +
                   std::to_string(op.groups) + " groups");
  LLMC_RETURN_IF_ERROR(
      c.want_equal(x.dims[1], Dim(taps[1] * op.groups), "number of input channels"));
  TensorType out{x.element, {x.dims[0], Dim(taps[0])}};
  for (std::size_t i = 0; i < op.strides.size(); ++i) {
    LLMC_TRY(Dim positions,
             window_positions(c, x.dims[i + 2], taps[i + 2], op.strides[i], op.dilations[i]));
    out.dims.push_back(std::move(positions));
  }
  return Types{std::move(out)};
}

Result<Types> infer_op(const InferContext& c, const DepthwiseConv& op) {
  LLMC_TRY(const std::vector<std::int64_t> taps, weight_dims(c, op.strides, op.dilations, 1));
  const TensorType& x = c.type(0);
  LLMC_RETURN_IF_ERROR(c.want_equal(x.dims.back(), Dim(taps.back()), "number of channels"));
  TensorType out{x.element, {x.dims[0]}};
  for (std::size_t i = 0; i < op.strides.size(); ++i) {
    LLMC_TRY(Dim positions,
             window_positions(c, x.dims[i + 1], taps[i], op.strides[i], op.dilations[i]));
    out.dims.push_back(std::move(positions));
  }
  out.dims.push_back(x.dims.back());
  return Types{std::move(out)};
}

Result<Types> infer_op(const InferContext& c, const Unfold& op) {
  const TensorType& x = c.type(0);
  if (x.rank() < 3) return c.error(to_string(x) + " has no spatial dims");
  const std::size_t spatial = x.rank() - 2;
  if (op.kernel.size() != spatial || op.strides.size() != spatial || op.dilations.size() != spatial)
    return c.error("kernel, strides and dilations need one number for each spatial dim of " +
                   to_string(x));
  TensorType out{x.element, {x.dims[0]}};
  auto elements = std::optional(x.dims.back());
  for (std::size_t i = 0; i < spatial; ++i) {
    if (op.kernel[i] < 1 || op.kernel[i] > kMaxStep)
      return c.error("the kernel has " + std::to_string(op.kernel[i]) + " elements along a dim");
    LLMC_TRY(Dim positions,
             window_positions(c, x.dims[i + 1], op.kernel[i], op.strides[i], op.dilations[i]));
    out.dims.push_back(std::move(positions));
    elements = elements ? mul(*elements, Dim(op.kernel[i])) : std::nullopt;
  }
  if (!elements) return c.error("a window has too many elements");
  out.dims.push_back(*elements);
  return Types{std::move(out)};
}

Result<Types> infer_op(const InferContext& c, const Softmax& op) {
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  LLMC_TRY([[maybe_unused]] const std::size_t axis, c.axis(op.axis));
  return Types{c.type(0)};
}

Result<Types> infer_op(const InferContext& c, const Reduce& op) {
  const auto& x = c.type(0);
  if (x.element == ElementType::kBool) return c.error("the operand is bool");
  auto axes = normalize_axes(op.axes, x.rank());
  if (!axes) return c.error("the axes do not fit " + to_string(x));
  if (axes->empty())
    for (std::size_t i = 0; i < x.rank(); ++i) axes->push_back(i);
  return Types{reduced(x, *axes, op.keep_dims)};
}

Result<Types> infer_op(const InferContext& c, const ArgMax& op) {
  LLMC_TRY(const std::size_t axis, c.axis(op.axis));
  auto out = reduced(c.type(0), {axis}, op.keep_dims);
  out.element = ElementType::kI64;
  return Types{std::move(out)};
}

}  // namespace llmc::ir

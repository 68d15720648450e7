#include "compiler/reference/eval.h"

#include <algorithm>

#include "compiler/ir/op_info.h"
#include "compiler/ir/shape_rules.h"
#include "compiler/support/checked_math.h"

namespace llmc::reference {

Status EvalContext::reserve(ir::ElementType element, const std::vector<std::int64_t>& dims) {
  const auto count = checked_product(dims);
  if (!count || !has_plain_size(dims)) return error("the result's size is out of range");
  const std::uint64_t element_bytes =
      with_data(element, [](auto data) { return sizeof((Tensor{}.*data)[0]); });
  const auto bytes = checked_mul<std::uint64_t>(static_cast<std::uint64_t>(*count), element_bytes);
  const std::uint64_t used = budget_.used_bytes + made_bytes_;
  if (!bytes || used > budget_.limit_bytes || *bytes > budget_.limit_bytes - used) {
    auto d = error("evaluation exceeds the memory limit of " + std::to_string(budget_.limit_bytes) +
                   " bytes");
    d.kind = ErrorKind::kOverBudget;
    return d;
  }
  made_bytes_ += *bytes;
  return ok_status();
}

Result<Tensor> EvalContext::make(ir::ElementType element, std::vector<std::int64_t> dims) {
  LLMC_RETURN_IF_ERROR(reserve(element, dims));
  return zeros(element, std::move(dims));
}

Diagnostic EvalContext::error(std::string message) const {
  return ir::node_failure(ErrorKind::kBadInput, node_, std::move(message));
}

Status EvalContext::want_rank(std::size_t i, std::size_t rank) const {
  if (operand(i).rank() == rank) return ok_status();
  return error("operand " + std::to_string(i) + " is " + type_text(operand(i)) + ", not of rank " +
               std::to_string(rank));
}

Status EvalContext::want_float(std::size_t i) const {
  if (operand(i).is_float()) return ok_status();
  return error("operand " + std::to_string(i) + " is " + type_text(operand(i)) + ", not floats");
}

Status EvalContext::want_integer(std::size_t i) const {
  if (ir::is_integer(operand(i).element)) return ok_status();
  return error("operand " + std::to_string(i) + " is " + type_text(operand(i)) + ", not integers");
}

Status EvalContext::want_equal(std::int64_t a, std::int64_t b, const std::string& what) const {
  if (a == b) return ok_status();
  return error(what + ": " + std::to_string(a) + " against " + std::to_string(b));
}

Result<std::size_t> EvalContext::axis(std::int64_t axis, std::size_t rank) const {
  const auto normal = ir::normalize_axis(axis, rank);
  if (!normal)
    return error("axis " + std::to_string(axis) + " is outside a tensor of rank " +
                 std::to_string(rank));
  return *normal;
}

Result<std::vector<std::int64_t>> broadcast_dims(const EvalContext& c,
                                                 const std::vector<std::int64_t>& a,
                                                 const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {  // starting with the last dim
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return c.error("sizes do not broadcast: " + std::to_string(x) + " against " +
                     std::to_string(y));
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

bool has_plain_size(const std::vector<std::int64_t>& dims) {
  std::int64_t size = 1;
  for (const std::int64_t dim : dims)
    if (dim < 0 || __builtin_mul_overflow(size, std::max<std::int64_t>(dim, 1), &size))
      return false;
  return true;
}

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> strides(dims.size(), 0);
  // An empty tensor needs no strides, and the product of its other dims may overflow.
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return strides;
  std::int64_t step = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    step *= dims[i];
  }
  return strides;
}

std::vector<std::int64_t> broadcast_strides(const std::vector<std::int64_t>& operand,
                                            const std::vector<std::int64_t>& dims) {
  const auto own = strides_of(operand);
  std::vector<std::int64_t> strides(dims.size(), 0);
  for (std::size_t i = 0; i < operand.size(); ++i)
    if (operand[operand.size() - 1 - i] != 1)
      strides[dims.size() - 1 - i] = own[operand.size() - 1 - i];
  return strides;
}

}  // namespace llmc::reference

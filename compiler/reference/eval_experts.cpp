#include <algorithm>
#include <span>

#include "compiler/ir/hadamard.h"
#include "compiler/reference/eval.h"
#include "compiler/reference/matrix.h"

/// Evaluates layers in which each row is multiplied by the weight of its expert.
namespace llmc::reference {
namespace {

/// Checks the operands and returns the expert of each row.
Result<std::vector<std::size_t>> experts_of(EvalContext& c, const ir::ExpertLinear& op) {
  LLMC_RETURN_IF_ERROR(c.want_float(0));
  LLMC_RETURN_IF_ERROR(c.want_float(1));
  LLMC_RETURN_IF_ERROR(c.want_rank(1, 2));
  const Tensor &x = c.operand(0), &weight = c.operand(1);
  const std::int64_t k = weight.dims[1];
  if (x.rank() < (c.has(2) ? 1u : 2u)) return c.error("the operand has too few dims");
  LLMC_RETURN_IF_ERROR(c.want_equal(x.dims.back(), k, "columns of the weight"));
  if (op.experts <= 0 || op.experts > weight.dims[0] || k <= 0 || weight.dims[0] % op.experts != 0)
    return c.error("the rows of the weight do not divide into the experts");
  const std::int64_t rows = x.count() / k;
  if (c.has(2)) {
    LLMC_RETURN_IF_ERROR(c.want_equal(rows, c.operand(2).count(), "rows of the ids"));
  } else {
    LLMC_RETURN_IF_ERROR(c.want_equal(x.dims.end()[-2], op.experts, "experts without ids"));
  }
  std::vector<std::size_t> experts;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t id = c.has(2) ? c.operand(2).integers[index(row)] : row % op.experts;
    experts.push_back(index(std::clamp<std::int64_t>(id, 0, op.experts - 1)));
  }
  return experts;
}

/// Returns the rows of operand 0 with the indices `places`, after the Hadamard transform if the
/// operator has one.
ProductInput rows_in(EvalContext& c, const ir::ExpertLinear& op, std::vector<std::size_t> places) {
  const Tensor& x = c.operand(0);
  const std::size_t k = index(c.operand(1).dims[1]);
  ProductInput input{std::vector<float>(places.size() * k), std::move(places)};
  for (std::size_t i = 0; i < input.places.size(); ++i) {
    const std::span<float> row = std::span(input.rows).subspan(i * k, k);
    std::ranges::copy(std::span(x.floats).subspan(input.places[i] * k, k), row.begin());
    if (op.hadamard > 0) ir::hadamard_input(row, op.hadamard);
  }
  return input;
}

}  // namespace

Result<ProductInput> expert_input(EvalContext& c, const ir::ExpertLinear& op,
                                  std::optional<std::size_t> expert) {
  LLMC_TRY(const std::vector<std::size_t> experts, experts_of(c, op));
  std::vector<std::size_t> places;
  for (std::size_t row = 0; row < experts.size(); ++row)
    if (!expert || experts[row] == *expert) places.push_back(row);
  return rows_in(c, op, std::move(places));
}

Result<Tensors> eval_op(EvalContext& c, const ir::ExpertLinear& op) {
  LLMC_TRY(const std::vector<std::size_t> experts, experts_of(c, op));
  const Tensor& weight = c.operand(1);
  const std::int64_t k = weight.dims[1], n = weight.dims[0] / op.experts;
  if (c.has(3)) {
    LLMC_RETURN_IF_ERROR(c.want_float(3));
    LLMC_RETURN_IF_ERROR(c.want_equal(c.operand(3).count(), weight.dims[0], "length of the bias"));
  }
  std::vector<std::int64_t> dims = c.operand(0).dims;
  dims.back() = n;
  LLMC_TRY(Tensor y, c.make(ir::ElementType::kF32, dims));
  std::vector<std::vector<std::size_t>> places(index(op.experts));
  for (std::size_t row = 0; row < experts.size(); ++row) places[experts[row]].push_back(row);
  for (std::size_t expert = 0; expert < places.size(); ++expert) {
    if (places[expert].empty()) continue;
    const ProductInput input = rows_in(c, op, std::move(places[expert]));
    const auto count = static_cast<std::int64_t>(input.places.size());
    std::vector<float> products(input.places.size() * index(n));
    if (c.product() != nullptr)
      (*c.product())(expert, input.rows, products);
    else
      multiply_transposed(input.rows.data(), weight.floats.data() + expert * index(n * k),
                          products.data(), count, k, n);
    for (std::size_t i = 0; i < products.size(); ++i) {
      const std::size_t row = input.places[i / index(n)], column = i % index(n);

      y.floats[row * index(n) + column] = products[i];
      if (c.has(3))
        y.floats[row * index(n) + column] += c.operand(3).floats[expert * index(n) + column];
    }
  }
  return Tensors{std::move(y)};
}

}  // namespace llmc::reference

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/reference/interpreter.h"
#include "compiler/reference/tensor.h"
#include "compiler/support/result.h"

/// Evaluation of single operators, in eval_*.cpp. interpreter.cpp evaluates graphs.
namespace llmc::reference {

using Tensors = std::vector<Tensor>;

/// Casts a non-negative number to an index.
inline std::size_t index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// Limit of the memory of values, and the part of it that is in use.
struct Budget {
  std::uint64_t limit_bytes = 0;
  std::uint64_t used_bytes = 0;
};

/// Context of one operator: its operands, and memory for results.
class EvalContext {
 public:
  EvalContext(const ir::Node& node, const std::vector<const Tensor*>& operands, Budget& budget,
              const Product* product = nullptr)
      : node_(node), operands_(operands), budget_(budget), product_(product) {}

  const ir::Node& node() const { return node_; }
  /// InterpreterOptions::product, or nullptr.
  const Product* product() const { return product_; }
  std::size_t size() const { return operands_.size(); }
  bool has(std::size_t i) const { return i < operands_.size() && operands_[i] != nullptr; }
  const Tensor& operand(std::size_t i) const { return *operands_[i]; }

  /// Reserves memory for a result. Fails with kBadInput if the dims are out of range, and with
  /// kOverBudget if the reservations of this operator together exceed the rest of the budget.
  Status reserve(ir::ElementType element, const std::vector<std::int64_t>& dims);
  /// Reserves memory for a tensor of zeros and returns it.
  Result<Tensor> make(ir::ElementType element, std::vector<std::int64_t> dims);
  Diagnostic error(std::string message) const;
  /// Check that operand i has the given rank, is a float tensor, or is an integer tensor.
  Status want_rank(std::size_t i, std::size_t rank) const;
  Status want_float(std::size_t i) const;  // including f64
  Status want_integer(std::size_t i) const;
  Status want_equal(std::int64_t a, std::int64_t b, const std::string& what) const;
  /// Returns `axis` counted from the front; fails if it is outside [-rank, rank).
  Result<std::size_t> axis(std::int64_t axis, std::size_t rank) const;

 private:
  const ir::Node& node_;
  const std::vector<const Tensor*>& operands_;
  Budget& budget_;
  const Product* product_;
  std::uint64_t made_bytes_ = 0;
};

/// Returns the rows of an ExpertLinear's first operand that belong to `expert` (nullopt: all rows),
/// after the Hadamard transform if the operator has one.
Result<ProductInput> expert_input(EvalContext& c, const ir::ExpertLinear& op,
                                  std::optional<std::size_t> expert);

/// Returns f(x) in double, or x itself if the operator does not map floats to floats.
double apply_unary(ir::UnaryKind kind, double x);
/// Returns f(a, b) for T float, double or int64_t; `kind` is not a comparison. NaN propagates
/// through kMin and kMax, as in NumPy. Integers wrap; with `is_u64` they have the bits of a u64.
/// The caller excludes integer division by zero.
template <class T>
T apply_binary(ir::BinaryKind kind, T a, T b, bool is_u64);

/// Declares eval_op(c, op), which returns the node's results, for every operator. It is not defined
/// for Loop and Parameter, which the interpreter evaluates.
#define LLMC_EVAL_OP(T) eval_op(EvalContext& c, const ir::T& op)
Result<Tensors> LLMC_IR_OPS(LLMC_EVAL_OP);
#undef LLMC_EVAL_OP

/// Returns the shape to which both shapes are broadcast, as in NumPy. Fails with kBadInput if they
/// are not compatible.
Result<std::vector<std::int64_t>> broadcast_dims(const EvalContext& c,
                                                 const std::vector<std::int64_t>& a,
                                                 const std::vector<std::int64_t>& b);
/// Returns whether the product of any subset of the dims fits 63 bits, so that arithmetic on sizes
/// needs no checks. True for every operand of an operator, also if it is empty.
bool has_plain_size(const std::vector<std::int64_t>& dims);
/// Returns row-major strides in elements; zeros if a dim is 0.
std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& dims);
/// Returns the strides of an operand broadcast to `dims`: 0 for repeated dims.
std::vector<std::int64_t> broadcast_strides(const std::vector<std::int64_t>& operand,
                                            const std::vector<std::int64_t>& dims);

/// Iterates over `dims` row by row: calls f(offsets, n, strides) for each run of n elements along
/// the last dim. For each operand, `offsets` has the index of the run's first element, and
/// `strides` the distance between its elements. An output is treated like an operand. f is not
/// called if a dim is 0. A scalar is a run of one element.
template <std::size_t N, class F>
void for_each_run(const std::vector<std::int64_t>& dims,
                  const std::array<std::vector<std::int64_t>, N>& strides, F&& f) {
  for (const std::int64_t dim : dims)
    if (dim == 0) return;
  std::array<std::int64_t, N> at{}, step{};
  if (dims.empty()) return f(at, std::int64_t{1}, step);
  const std::size_t last = dims.size() - 1;
  for (std::size_t n = 0; n < N; ++n) step[n] = strides[n][last];
  std::vector<std::int64_t> index(last, 0);
  while (true) {
    f(at, dims[last], step);
    std::size_t d = last;
    while (d > 0) {
      --d;
      for (std::size_t n = 0; n < N; ++n) at[n] += strides[n][d];
      if (++index[d] < dims[d]) break;
      for (std::size_t n = 0; n < N; ++n) at[n] -= strides[n][d] * dims[d];
      index[d] = 0;
      if (d == 0) return;
    }
    if (last == 0) return;
  }
}

/// Calls f(offset, stride) for each line of elements along `axis`.
template <class F>
void for_each_line(const std::vector<std::int64_t>& dims, std::size_t axis, F&& f) {
  std::int64_t outer = 1, inner = 1;
  for (std::size_t i = 0; i < axis; ++i) outer *= dims[i];
  for (std::size_t i = axis + 1; i < dims.size(); ++i) inner *= dims[i];
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) f(o * dims[axis] * inner + i, inner);
}

}  // namespace llmc::reference

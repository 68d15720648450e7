#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/constant.h"
#include "compiler/ir/type.h"
#include "compiler/support/result.h"

namespace llmc::reference {

/// A row-major value during evaluation. f32, f16 and bf16 are stored as float (rounded to their
/// precision), f64 as double, integers and bool as int64 (u64 with the same bits). Only one of the
/// vectors is used.
struct Tensor {
  ir::ElementType element = ir::ElementType::kF32;
  std::vector<std::int64_t> dims;
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
  std::vector<double> doubles = {};

  bool is_float() const { return ir::is_float(element); }
  std::size_t rank() const { return dims.size(); }
  std::int64_t count() const;
  /// Returns the size of the elements in memory, in bytes.
  std::uint64_t bytes() const {
    return floats.size() * sizeof(float) + (integers.size() + doubles.size()) * 8;
  }
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// Calls f with a pointer to the member that stores elements of this type: `with_data(element,
/// [&](auto member) { (x.*member)[0] = (y.*member)[0]; })`.
template <class F>
decltype(auto) with_data(ir::ElementType element, F&& f) {
  if (element == ir::ElementType::kF64) return f(&Tensor::doubles);
  if (ir::is_float(element)) return f(&Tensor::floats);
  return f(&Tensor::integers);
}

/// Make tensors from row-major values. The number of values must match `dims` (LLMC_CHECK).
Tensor f32_tensor(std::vector<std::int64_t> dims, std::vector<float> values);
Tensor i64_tensor(std::vector<std::int64_t> dims, std::vector<std::int64_t> values);
/// Returns a tensor of zeros (false for bool). The memory is not limited, and the number of
/// elements must fit 63 bits (LLMC_CHECK).
Tensor zeros(ir::ElementType element, std::vector<std::int64_t> dims);

/// Returns a copy of a constant. Reads a matrix view by rows, so that no complete copies of its
/// sources are made.
Tensor to_tensor(const ir::Constant& constant);
/// Returns a copy of the elements as an IR constant.
ir::ConstantPtr to_constant(const Tensor& tensor);

/// Converts every element to the precision of `tensor.element`: f16 and bf16 are rounded to nearest
/// even, integers wrap to their width, and bools become 0 or 1.
void round_to_element(Tensor& tensor);

/// Returns, for example, "f32[2, 3]".
std::string type_text(const Tensor& tensor);

}  // namespace llmc::reference

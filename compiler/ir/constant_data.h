#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/constant.h"

/// Elements as bytes: conversions and text shared by constants, the parser and views.
namespace llmc::ir {

/// Return the dims of a rank-2 constant; a rank-1 constant counts as one row (LLMC_CHECK
/// otherwise).
std::int64_t matrix_columns(const Constant& constant);
std::int64_t matrix_rows(const Constant& constant);
/// Checks that a block is inside `constant` and that `out_size` matches; returns the columns.
std::int64_t check_block(const Constant& constant, std::int64_t row, std::int64_t rows,
                         std::int64_t column, std::int64_t columns, std::size_t out_size);

/// Returns "f32[2, 3] {…}", for the source of a view, whose dims cannot be derived from the view's
/// type.
std::string typed_text(const Constant& constant);

/// Returns the quantization that holds for the rows of both.
Quantization merged(const Quantization& a, const Quantization& b);
/// Returns the transposed quantized matrix, or nullptr if `source` was not made by make_quantized.
ConstantPtr transposed_quantized(const ConstantPtr& source);

/// Converts out.size() elements from the front of `data` to floats.
void convert_to_floats(ElementType element, std::span<const std::byte> data, std::span<float> out);
/// Returns one element; integers beyond 2^53 lose their low bits.
double element_to_double(ElementType element, const std::byte* data);
/// Returns one integer or bool element.
std::int64_t element_to_integer(ElementType element, const std::byte* data);

/// Returns the bytes of one element. Integers are truncated toward zero and saturate; floats round
/// to nearest even.
std::vector<std::byte> element_from_double(ElementType element, double value);
/// Returns nullopt if `value` does not fit the integer or bool type. u64 is limited to INT64_MAX.
std::optional<std::vector<std::byte>> element_from_integer(ElementType element, std::int64_t value);

/// Returns the shortest decimal that reads back as the same value; "nan", "inf", "-inf".
std::string number_text(double value);
/// Returns one element in text form.
std::string element_text(ElementType element, std::span<const std::byte> data);
/// Returns "{1, 2, 3}".
std::string element_list_text(ElementType element, std::span<const std::byte> data);

}  // namespace llmc::ir

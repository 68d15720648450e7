#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/constant.h"

/// Conversions of elements between bytes, numbers and text, shared by constants, views and the
/// parser.
namespace llmc::ir {

/// Return the number of columns or rows. The rank must be 1 or 2 (LLMC_CHECK). A rank-1 constant
/// counts as one row.
std::int64_t matrix_columns(const Constant& constant);
std::int64_t matrix_rows(const Constant& constant);
/// Returns the number of columns of `constant`. Checks that the block is inside it and that
/// `out_size` is at least rows * columns (LLMC_CHECK).
std::int64_t check_block(const Constant& constant, std::int64_t row, std::int64_t rows,
                         std::int64_t column, std::int64_t columns, std::size_t out_size);

/// Returns type and data in text form, for example "f32[2, 3] {…}". Views print their sources in
/// this form.
std::string typed_text(const Constant& constant);

/// Returns a quantization that describes rows of `a` and rows of `b`.
Quantization merged(const Quantization& a, const Quantization& b);
/// Returns the transpose of a quantized matrix, or nullptr if `source` was not made by
/// make_quantized.
ConstantPtr transposed_quantized(const ConstantPtr& source);

/// Converts the first out.size() elements of `data`, which must contain them (LLMC_CHECK), to
/// floats.
void convert_to_floats(ElementType element, std::span<const std::byte> data, std::span<float> out);
/// Returns one element. Integers above 2^53 are rounded.
double element_to_double(ElementType element, const std::byte* data);
/// Returns one integer or bool element. A u64 of 2^63 or more wraps.
std::int64_t element_to_integer(ElementType element, const std::byte* data);

/// Returns the bytes of one element. Conversion to an integer type truncates toward zero and
/// saturates; NaN becomes 0. A bool is true if the value is not 0. Floats round to nearest even.
std::vector<std::byte> element_from_double(ElementType element, double value);
/// Returns the bytes of one element. Float types round `value`; returns nullopt if an integer or
/// bool type cannot represent it.
std::optional<std::vector<std::byte>> element_from_integer(ElementType element, std::int64_t value);

/// Returns the shortest decimal that is read back as the same value, or "nan", "inf" or "-inf".
std::string number_text(double value);
/// Returns one element in text form.
std::string element_text(ElementType element, std::span<const std::byte> data);
/// Returns all elements in text form, for example "{1, 2, 3}".
std::string element_list_text(ElementType element, std::span<const std::byte> data);

}  // namespace llmc::ir

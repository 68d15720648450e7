#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/constant.h"

/// Elements as bytes: conversions and text that constants, the parser and the views share.
namespace llmc::ir {

/// Columns of a rank-2 constant; a rank-1 constant counts as one row (LLMC_CHECK otherwise).
std::int64_t matrix_columns(const Constant& constant);
std::int64_t matrix_rows(const Constant& constant);
/// Checks that a block lies inside `constant` and fills `out_size`; returns the columns.
std::int64_t check_block(const Constant& constant, std::int64_t row, std::int64_t rows,
                         std::int64_t column, std::int64_t columns, std::size_t out_size);

/// "f32[2, 3] {…}": a source of a view, whose dims the view's own type does not tell.
std::string typed_text(const Constant& constant);

/// What holds for rows of both.
Quantization merged(const Quantization& a, const Quantization& b);
/// The quantized matrix turned, or nullptr when `source` was not made by make_quantized.
ConstantPtr transposed_quantized(const ConstantPtr& source);

/// out.size() elements from the front of `data` as floats.
void convert_to_floats(ElementType element, std::span<const std::byte> data, std::span<float> out);
/// One element; integers beyond 2^53 lose their low bits.
double element_to_double(ElementType element, const std::byte* data);
/// One integer or bool element.
std::int64_t element_to_integer(ElementType element, const std::byte* data);

/// One element's bytes. Integers: truncated toward zero and saturated; floats: round to nearest
/// even.
std::vector<std::byte> element_from_double(ElementType element, double value);
/// nullopt when `value` does not fit the integer or bool type. u64 holds up to INT64_MAX.
std::optional<std::vector<std::byte>> element_from_integer(ElementType element, std::int64_t value);

/// Shortest decimal that reads back the same; "nan", "inf", "-inf".
std::string number_text(double value);
/// One element as the text form writes it.
std::string element_text(ElementType element, std::span<const std::byte> data);
/// "{1, 2, 3}"
std::string element_list_text(ElementType element, std::span<const std::byte> data);

}  // namespace llmc::ir

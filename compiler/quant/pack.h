#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/support/result.h"
#include "llmc/sizes.h"

/// Encodes rows of weights straight into the layouts of templates/llmc/quant, as many rows at a
/// time as the caller has: a panel's bytes depend on its own 8 rows only, so a matrix of any size
/// can be streamed and split among threads without changing a bit.
namespace llmc::quant {

/// Largest magnitude the format can hold; infinity when any finite float fits.
float largest_weight(WeightKind kind);
float largest_value(TableKind kind);

/// Packs rows [first_row, first_row + values.size() / columns) of a matrix; `first_row` is a
/// multiple of 8 and only names rows in errors. The last panel is filled up with zero rows and
/// codes past `columns` are zero. `out` has exactly weight_bytes(kind, rows, columns) bytes.
/// `importance` (q4 only; empty or one per column): how much the square of an error there counts.
/// kBadInput naming row and column of a weight that is not finite or too large for the format; the
/// caller adds the tensor's name.
Status pack_panels(WeightKind kind, std::span<const float> values, std::size_t columns,
                   std::uint64_t first_row, std::span<std::byte> out,
                   std::span<const float> importance = {});
/// The reverse: fills values (rows * columns of them; `panels` has weight_bytes(…) bytes).
void unpack_panels(WeightKind kind, std::span<const std::byte> panels, std::size_t columns,
                   std::span<float> values);

/// The same for tables that are looked up by row: out has table_bytes(kind, rows, columns) bytes.
Status pack_table_rows(TableKind kind, std::span<const float> values, std::size_t columns,
                       std::uint64_t first_row, std::span<std::byte> out);
void unpack_table_rows(TableKind kind, std::span<const std::byte> rows, std::size_t columns,
                       std::span<float> values);

}  // namespace llmc::quant

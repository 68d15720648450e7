#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/support/result.h"
#include "llmc/sizes.h"

/// Encodes rows of weights into the layouts of templates/llmc/quant, any number of rows at a time.
/// The bytes of a panel depend only on its own 8 rows, so a matrix of any size can be streamed and
/// split among threads without changing a bit.
namespace llmc::quant {

/// Returns the maximum magnitude the format can represent; infinity if any finite float fits.
float largest_weight(WeightKind kind);
float largest_value(TableKind kind);

/// Packs rows [first_row, first_row + values.size() / columns) of a matrix. `first_row` is a
/// multiple of 8 and only used in errors. The last panel is padded with zero rows, and codes past
/// `columns` are zero. `out` must have exactly weight_bytes(kind, rows, columns) bytes.
/// `importance` (q4 only; empty or one per column): weight of the squared error. kBadInput names
/// row and column of a weight that is not finite or too large for the format; the caller adds the
/// tensor's name.
Status pack_panels(WeightKind kind, std::span<const float> values, std::size_t columns,
                   std::uint64_t first_row, std::span<std::byte> out,
                   std::span<const float> importance = {});
/// Decodes panels of weight_bytes(…) bytes into rows * columns values.
void unpack_panels(WeightKind kind, std::span<const std::byte> panels, std::size_t columns,
                   std::span<float> values);

/// Packs rows of tables; out has table_bytes(kind, rows, columns) bytes.
Status pack_table_rows(TableKind kind, std::span<const float> values, std::size_t columns,
                       std::uint64_t first_row, std::span<std::byte> out);
void unpack_table_rows(TableKind kind, std::span<const std::byte> rows, std::size_t columns,
                       std::span<float> values);

}  // namespace llmc::quant

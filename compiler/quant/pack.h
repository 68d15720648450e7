#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/quant/encoded_matrix.h"
#include "compiler/support/result.h"
#include "llmc/sizes.h"

/// Encodes rows of weights into the layouts of templates/llmc/quant, any number of rows at a time.
/// The bytes of a panel depend only on its own 8 rows, so a matrix of any size can be packed in
/// pieces, and by several threads, with identical results.
namespace llmc::quant {

/// Return the maximum magnitude that pack_panels() and pack_table_rows() accept; infinity if they
/// accept all finite values or do not pack the format.
float largest_weight(WeightKind kind);
float largest_value(TableKind kind);

/// Packs rows [first_row, first_row + values.size() / columns) of a matrix. A coded `kind` must
/// be symmetric (symmetric.h, LLMC_CHECK); coded.h packs the others. `first_row` is a multiple of 8
/// and used only in error messages. The last panel is padded with zero rows; codes after `columns`
/// are zero. `out` must have exactly weight_bytes(kind, rows, columns) bytes. importance[k] weights
/// the squared error of column k when q4 codes are chosen; empty: all 1. Other formats ignore it.
/// Fails with kBadInput if a weight is not finite or too large for the format; the message names
/// its row and column, and the caller adds the tensor's name.
Status pack_panels(WeightKind kind, std::span<const float> values, std::size_t columns,
                   std::uint64_t first_row, std::span<std::byte> out,
                   std::span<const float> importance = {});
/// Packs rows of an encoded matrix. `order` has the index of each packed row; -1 is a row of zeros.
void pack_encoded_panels(const EncodedMatrix& matrix, std::span<const std::int64_t> order,
                         std::span<std::byte> out);
/// Converts panels of q6 to panels of the same weights with split codes (llmc/quant/coded.h).
void split_panels(std::span<const std::byte> panels, std::size_t columns, std::span<std::byte> out);
/// Decodes panels of weight_bytes(…) bytes to rows * columns values.
void unpack_panels(WeightKind kind, std::span<const std::byte> panels, std::size_t columns,
                   std::span<float> values);

/// Packs rows of a table; `out` must have table_bytes(kind, rows, columns) bytes. `kind` must not
/// be kCoded (LLMC_CHECK), which coded.h packs. Fails like pack_panels().
Status pack_table_rows(TableKind kind, std::span<const float> values, std::size_t columns,
                       std::uint64_t first_row, std::span<std::byte> out);

}  // namespace llmc::quant

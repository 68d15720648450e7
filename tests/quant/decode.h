#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/quant/pack.h"
#include "compiler/quant/q4.h"
#include "compiler/quant/scaled_row.h"
#include "compiler/support/check.h"
#include "llmc/half.h"
#include "llmc/quant/layout.h"

namespace llmc::quant {

/// Decodes the weights exactly as kernels do: each product and each sum is rounded to f32.
inline void decode_q4_row(const Q4Row& row, std::span<float> weights) {
  LLMC_CHECK(weights.size() == row.codes.size());
  const float scale = bf16_to_f32(row.scale), min = bf16_to_f32(row.min);
  for (std::size_t k = 0; k < weights.size(); ++k) {
    const std::size_t b = k / kBlock;
    const float scaled = scale * static_cast<float>(row.scales[b] * row.codes[k]);
    weights[k] = scaled + min * static_cast<float>(row.minimums[b]);
  }
}

/// Decodes a row with blocks of 32. `weights` must have as many elements as the row has codes.
inline void decode_scaled_row(const ScaledRow& row, std::span<float> weights) {
  LLMC_CHECK(weights.size() == row.codes.size());
  for (std::size_t k = 0; k < weights.size(); ++k)
    weights[k] = f16_to_f32(row.scales[k / kBlock]) * static_cast<float>(row.codes[k]);
}

/// Decodes rows packed by pack_table_rows() or pack_coded_table() to rows * columns values.
inline void unpack_table_rows(TableKind kind, std::span<const std::byte> rows, std::size_t columns,
                              std::span<float> values) {
  LLMC_CHECK(rows.size() == table_bytes(kind, values.size() / columns, columns));
  const std::size_t row_bytes = table_row_bytes(kind, columns);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(rows.data());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = table_decode(kind, bytes + i / columns * row_bytes, columns, i % columns);
}

}  // namespace llmc::quant

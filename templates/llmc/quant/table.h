#pragma once

#include "llmc/quant/layout.h"

/// Tables that are only looked up by row (embeddings, positions): [rows, width], row after row.
///   f32, f16, bf16   elements side by side, no padding
///   q8               each row: i8 codes [round_up(width, 32)], then one f16 scale per 32;
///                    value = scale * code
namespace llmc {
inline namespace LLMC_ISA {

enum class TableKind : uint8_t { kF32, kF16, kBF16, kQ8 };

constexpr size_t table_row_bytes(TableKind kind, size_t width) {
  switch (kind) {
    case TableKind::kF32:
      return width * sizeof(float);
    case TableKind::kQ8:
      return block_count(width) * (kBlock + sizeof(uint16_t));
    default:
      return width * sizeof(uint16_t);
  }
}
constexpr size_t table_bytes(TableKind kind, size_t rows, size_t width) {
  return rows * table_row_bytes(kind, width);
}

/// Element `i` of a row that starts at `row`.
constexpr float table_decode(TableKind kind, const uint8_t* row, size_t width, size_t i) {
  switch (kind) {
    case TableKind::kF32:
      return bits_float(load_u32(row + i * sizeof(float)));
    case TableKind::kF16:
      return f16_to_f32(load_u16(row + i * sizeof(uint16_t)));
    case TableKind::kBF16:
      return bf16_to_f32(load_u16(row + i * sizeof(uint16_t)));
    case TableKind::kQ8:
      break;
  }
  const uint8_t* scales = row + block_count(width) * kBlock;
  return f16_to_f32(load_u16(scales + (i / kBlock) * sizeof(uint16_t))) *
         static_cast<float>(static_cast<int8_t>(row[i]));
}

}  // namespace LLMC_ISA
}  // namespace llmc

#pragma once

#include "llmc/quant/coded.h"

/// Tables that are only read row by row (token and position embeddings): [rows, width], row-major.
///
///     f32, f16, bf16   contiguous elements, no padding
///     q8               each row: i8 codes [round_up(width, 32)], then one f16 scale per 32;
///                      value = scale * code
///     coded            see quant/coded.h
namespace llmc {
inline namespace LLMC_ISA {

/// Values from kCoded on are coded formats: coded_table(format).
enum class TableKind : uint16_t { kF32, kF16, kBF16, kQ8, kCoded = kFirstCoded };

constexpr TableKind coded_table(CodedFormat f) {
  return static_cast<TableKind>(coded_number(f));
}
constexpr bool is_coded(TableKind kind) {
  return kind >= TableKind::kCoded;
}
constexpr CodedFormat coded_format(TableKind kind) {
  return coded_format(static_cast<uint16_t>(kind));
}

constexpr size_t table_row_bytes(TableKind kind, size_t width) {
  if (is_coded(kind)) return coded_row_bytes(coded_format(kind), width);
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

/// Returns element `i` of a row that starts at `row`.
constexpr float table_decode(TableKind kind, const uint8_t* row, size_t width, size_t i) {
  if (is_coded(kind)) return coded_row_decode(coded_format(kind), row, width, i);
  switch (kind) {
    case TableKind::kF32:
      return bits_float(load_u32(row + i * sizeof(float)));
    case TableKind::kF16:
      return f16_to_f32(load_u16(row + i * sizeof(uint16_t)));
    case TableKind::kBF16:
      return bf16_to_f32(load_u16(row + i * sizeof(uint16_t)));
    default:
      break;
  }
  const uint8_t* scales = row + block_count(width) * kBlock;
  return f16_to_f32(load_u16(scales + (i / kBlock) * sizeof(uint16_t))) *
         static_cast<float>(static_cast<int8_t>(row[i]));
}

}  // namespace LLMC_ISA
}  // namespace llmc

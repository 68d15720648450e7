#pragma once

#include "llmc/quant/layout.h"

/// Half-precision weights. Panel of 8 rows: [K][8 rows] f16, rounded up to 64 bytes.
namespace llmc {
inline namespace LLMC_ISA {

constexpr size_t f16_panel_bytes(size_t k) {
  return round_up(k * kPanelRows * sizeof(uint16_t), kAlignment);
}
constexpr size_t f16_bytes(size_t rows, size_t k) {
  return panel_count(rows) * f16_panel_bytes(k);
}

constexpr size_t f16_position(size_t row, size_t k) {
  return (k * kPanelRows + row) * sizeof(uint16_t);
}
/// Sets a weight. `bits` is the representation of an f16.
constexpr void f16_set(uint8_t* panel, size_t row, size_t k, uint16_t bits) {
  store_u16(panel + f16_position(row, k), bits);
}
constexpr float f16_decode(const uint8_t* panel, size_t row, size_t k) {
  return f16_to_f32(load_u16(panel + f16_position(row, k)));
}

}  // namespace LLMC_ISA
}  // namespace llmc

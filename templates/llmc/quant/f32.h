#pragma once

#include "llmc/quant/layout.h"

/// Float weights. Panel of 8 rows: [K][8 rows] f32, rounded up to 64 bytes.
namespace llmc {
inline namespace LLMC_ISA {

constexpr size_t f32_panel_bytes(size_t k) {
  return round_up(k * kPanelRows * sizeof(float), kAlignment);
}
constexpr size_t f32_bytes(size_t rows, size_t k) {
  return panel_count(rows) * f32_panel_bytes(k);
}

constexpr size_t f32_position(size_t row, size_t k) {
  return (k * kPanelRows + row) * sizeof(float);
}
constexpr void f32_set(uint8_t* panel, size_t row, size_t k, float value) {
  store_u32(panel + f32_position(row, k), float_bits(value));
}
constexpr float f32_decode(const uint8_t* panel, size_t row, size_t k) {
  return bits_float(load_u32(panel + f32_position(row, k)));
}

}  // namespace LLMC_ISA
}  // namespace llmc

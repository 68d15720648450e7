#pragma once

#include "llmc/quant/layout.h"

/// 8-bit symmetric weights:  w[r][k] = d[r][b] * c[r][k],  b = k / 32, c in -127..127, f16 d.
///
/// A panel of 8 rows is a sequence of superblocks of nb = 8 blocks (the last one may have fewer).
/// The size of a superblock is rounded up to a multiple of 64 bytes:
///   codes   [nb][8][8 rows][4] i8   byte i of row r in vector v of a block is k = 4v + i   256 B
///   scales  [nb][8 rows] f16                                                               16 B
/// Codes past K are zero.
namespace llmc {
inline namespace LLMC_ISA {

inline constexpr size_t kQ8BlockCodeBytes = kPanelRows * kBlock;

constexpr size_t q8_scale_offset(size_t blocks) {
  return blocks * kQ8BlockCodeBytes;
}
constexpr size_t q8_super_bytes(size_t blocks) {
  return round_up(q8_scale_offset(blocks) + blocks * kPanelRows * sizeof(uint16_t), kAlignment);
}
constexpr size_t q8_super_offset(size_t super) {
  return super * q8_super_bytes(kBlocksPerSuper);
}
constexpr size_t q8_panel_bytes(size_t k) {
  const size_t last = super_count(k) - 1;
  return q8_super_offset(last) + q8_super_bytes(blocks_in_super(k, last));
}
/// Returns the size of a packed matrix [rows, k].
constexpr size_t q8_bytes(size_t rows, size_t k) {
  return panel_count(rows) * q8_panel_bytes(k);
}

constexpr size_t q8_code_position(size_t row, size_t k) {
  const size_t block = (k % kSuper) / kBlock;
  const size_t in_block = k % kBlock;
  return q8_super_offset(k / kSuper) + block * kQ8BlockCodeBytes + (in_block / 4) * 32 + row * 4 +
         in_block % 4;
}
constexpr size_t q8_scale_position(size_t k_total, size_t row, size_t block) {
  const size_t super = block / kBlocksPerSuper;
  return q8_super_offset(super) + q8_scale_offset(blocks_in_super(k_total, super)) +
         ((block % kBlocksPerSuper) * kPanelRows + row) * sizeof(uint16_t);
}

constexpr void q8_set_code(uint8_t* panel, size_t row, size_t k, int8_t code) {
  panel[q8_code_position(row, k)] = static_cast<uint8_t>(code);
}
/// Sets a scale. `scale` is the bit pattern of an f16.
constexpr void q8_set_scale(uint8_t* panel, size_t k_total, size_t row, size_t block,
                            uint16_t scale) {
  store_u16(panel + q8_scale_position(k_total, row, block), scale);
}

constexpr int8_t q8_code(const uint8_t* panel, size_t row, size_t k) {
  return static_cast<int8_t>(panel[q8_code_position(row, k)]);
}
constexpr float q8_scale(const uint8_t* panel, size_t k_total, size_t row, size_t block) {
  return f16_to_f32(load_u16(panel + q8_scale_position(k_total, row, block)));
}
/// Returns the weight as a float. The product is exact, because the f16 has 11 significant bits,
/// the magnitude of the code 7, and a float 24.
constexpr float q8_decode(const uint8_t* panel, size_t k_total, size_t row, size_t k) {
  return q8_scale(panel, k_total, row, k / kBlock) * static_cast<float>(q8_code(panel, row, k));
}

}  // namespace LLMC_ISA
}  // namespace llmc

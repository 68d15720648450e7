#pragma once

#include "llmc/quant/layout.h"

/// 4-bit asymmetric weights:  w[r][k] = S[r] * s[r][b] * c[r][k] + M[r] * m[r][b],  b = k / 32,
/// codes c in 0..15, 4-bit scales s and u8 mins m per block of 32, bf16 S and M per row:
/// 4.375 + 32/K bits per weight.
///
/// Panel of 8 rows, a multiple of 16 bytes:
///   header      S[8] bf16, M[8] bf16                                      32 bytes
///   superblock  (nb = 8 blocks; fewer in the last one; each rounded up to 16 bytes)
///     codes     [nb][4][8 rows][4]  byte i of row r in vector v of a block holds
///               k = 8v + i (low nibble) and k = 8v + 4 + i (high nibble)  128 bytes per block
///     scales    [ceil(nb/2)][8 rows] u8  two blocks: even one in low nibble  8 bytes per pair
///     mins      [nb/2][8 rows][2] u8  two blocks side by side             16 bytes per pair;
///               then, for an odd nb, [8 rows] u8                          8 bytes
/// Codes past K are zero. For an odd nb, the high nibbles of the last scales are zero.
namespace llmc {
inline namespace LLMC_ISA {

inline constexpr size_t kQ4Alignment = 16;
inline constexpr size_t kQ4HeaderBytes = 2 * kPanelRows * sizeof(uint16_t);
inline constexpr size_t kQ4BlockCodeBytes = kPanelRows * kBlock / 2;

constexpr size_t q4_scale_offset(size_t blocks) {
  return blocks * kQ4BlockCodeBytes;
}
constexpr size_t q4_min_offset(size_t blocks) {
  return q4_scale_offset(blocks) + ceil_div(blocks, 2) * kPanelRows;
}
/// Returns the size of a superblock of `blocks` blocks (1..8).
constexpr size_t q4_super_bytes(size_t blocks) {
  return round_up(q4_min_offset(blocks) + blocks * kPanelRows, kQ4Alignment);
}
/// Returns the offset of superblock `super` in its panel (all superblocks before it have 8 blocks).
constexpr size_t q4_super_offset(size_t super) {
  return kQ4HeaderBytes + super * q4_super_bytes(kBlocksPerSuper);
}
constexpr size_t q4_panel_bytes(size_t k) {
  const size_t last = super_count(k) - 1;
  return q4_super_offset(last) + q4_super_bytes(blocks_in_super(k, last));
}
/// Returns the size of a packed matrix [rows, k].
constexpr size_t q4_bytes(size_t rows, size_t k) {
  return panel_count(rows) * q4_panel_bytes(k);
}

// ---- Access to single elements: used by packers to write, by tests and embedding lookups to read
// `panel` points to a panel, `row` is 0..7, `k_total` is the matrix's K.

struct Q4Position {
  size_t byte;     // offset in the panel
  unsigned shift;  // 0 or 4
};
constexpr Q4Position q4_code_position(size_t row, size_t k) {
  const size_t block = (k % kSuper) / kBlock;
  const size_t in_block = k % kBlock;
  const size_t byte = q4_super_offset(k / kSuper) + block * kQ4BlockCodeBytes +
                      (in_block / 8) * 32 + row * 4 + in_block % 4;
  return {byte, (in_block % 8) < 4 ? 0u : 4u};
}
constexpr Q4Position q4_scale_position(size_t k_total, size_t row, size_t block) {
  const size_t super = block / kBlocksPerSuper;
  const size_t in_super = block % kBlocksPerSuper;
  const size_t byte = q4_super_offset(super) + q4_scale_offset(blocks_in_super(k_total, super)) +
                      (in_super / 2) * kPanelRows + row;
  return {byte, in_super % 2 == 0 ? 0u : 4u};
}
constexpr size_t q4_min_position(size_t k_total, size_t row, size_t block) {
  const size_t super = block / kBlocksPerSuper;
  const size_t in_super = block % kBlocksPerSuper;
  const size_t blocks = blocks_in_super(k_total, super);
  const bool alone = in_super + 1 == blocks && in_super % 2 == 0;
  return q4_super_offset(super) + q4_min_offset(blocks) + (in_super / 2) * 2 * kPanelRows +
         (alone ? row : row * 2 + in_super % 2);
}

/// Sets a code in a zeroed panel. Each code and scale may be set only once.
constexpr void q4_set_code(uint8_t* panel, size_t row, size_t k, uint8_t code) {
  const Q4Position at = q4_code_position(row, k);
  panel[at.byte] = static_cast<uint8_t>(panel[at.byte] | ((code & 15u) << at.shift));
}
/// Sets a scale; `s` is in 0..15.
constexpr void q4_set_scale(uint8_t* panel, size_t k_total, size_t row, size_t block, uint8_t s) {
  const Q4Position at = q4_scale_position(k_total, row, block);
  panel[at.byte] = static_cast<uint8_t>(panel[at.byte] | ((s & 15u) << at.shift));
}
constexpr void q4_set_min(uint8_t* panel, size_t k_total, size_t row, size_t block, uint8_t m) {
  panel[q4_min_position(k_total, row, block)] = m;
}
/// Sets S and M of a row, as bits of bf16.
constexpr void q4_set_row(uint8_t* panel, size_t row, uint16_t scale, uint16_t min) {
  store_u16(panel + row * sizeof(uint16_t), scale);
  store_u16(panel + (kPanelRows + row) * sizeof(uint16_t), min);
}

constexpr uint8_t q4_code(const uint8_t* panel, size_t row, size_t k) {
  const Q4Position at = q4_code_position(row, k);
  return static_cast<uint8_t>((panel[at.byte] >> at.shift) & 15u);
}
constexpr uint8_t q4_scale(const uint8_t* panel, size_t k_total, size_t row, size_t block) {
  const Q4Position at = q4_scale_position(k_total, row, block);
  return static_cast<uint8_t>((panel[at.byte] >> at.shift) & 15u);
}
constexpr uint8_t q4_min(const uint8_t* panel, size_t k_total, size_t row, size_t block) {
  return panel[q4_min_position(k_total, row, block)];
}
constexpr float q4_row_scale(const uint8_t* panel, size_t row) {
  return bf16_to_f32(load_u16(panel + row * sizeof(uint16_t)));
}
constexpr float q4_row_min(const uint8_t* panel, size_t row) {
  return bf16_to_f32(load_u16(panel + (kPanelRows + row) * sizeof(uint16_t)));
}
/// Returns the weight as a float: (S * (s*c)) + (M * m), each operation rounded.
constexpr float q4_decode(const uint8_t* panel, size_t k_total, size_t row, size_t k) {
  const uint32_t product =
      static_cast<uint32_t>(q4_scale(panel, k_total, row, k / kBlock)) * q4_code(panel, row, k);
  const float scaled = q4_row_scale(panel, row) * static_cast<float>(product);
  return scaled +
         q4_row_min(panel, row) * static_cast<float>(q4_min(panel, k_total, row, k / kBlock));
}

}  // namespace LLMC_ISA
}  // namespace llmc

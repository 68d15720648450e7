#pragma once

#include "llmc/quant/layout.h"

/// Weights as blocks of integer codes. Each block has a scale and may have a zero point, as in the
/// formats of quantized models:
///
///     w[r][k] = (c[r][k] - z[r][g]) * s[r][g],  g = k / block
///
/// Difference and product are rounded separately, so that a weight has the same bits as the float
/// that the model's file defines.
///
///     bits 4  c in 0..15                       z: 8, or u8, or a float
///     bits 6  c in -32..31 (stored as c + 32)  z: 0
///     bits 8  c in -128..127 (stored as i8)    z: 0, or -128..127 (stored as z + 128, u8);
///             with float z: c in 0..255 (stored as c - 128, i8)
///
/// Panel of 8 rows: superblocks of nb = 8 blocks of 32 (fewer in the last one) with ng groups of
/// `block` weights (the last group may extend past the last block). Each superblock is rounded up
/// to a multiple of 64 bytes:
///
///     codes   bits 4: [nb][4][8 rows][4]    byte i of row r in vector v of a block holds
///             k = 8v + i (low nibble) and k = 8v + 4 + i (high nibble)     128 bytes per block
///             bits 6: [nb], each block: 128 bytes with the lower four bits as for bits 4; then
///             [2][8 rows][4]: bits 2j and 2j + 1 of byte i of row r in vector u are the
///             upper two bits of k = 16u + 4j + i                           192 bytes per block
///             bits 8: [nb][8][8 rows][4]    byte i of row r in vector v is k = 4v + i
///                                                                          256 bytes per block
///     scales  [ng][8 rows] f16 or f32
///     zeros   [ng][8 rows] u8, or floats as wide as the scales; nothing without zero points
///
/// Panel of a split format (6 bits, `split`): the upper four bits of the codes can be read without
/// the lower two (kernels/choose.h). First the superblocks, each with the upper four bits of the
/// codes, laid out like 4-bit codes, and the scales; then
///
///     bounds  [8 rows] f16, immediately after the last scales, padded to a multiple of 64 bytes:
///             see split_bound()
///     lower   [blocks][2][8 rows][4]: bits 2j and 2j + 1 of byte i of row r in vector u are the
///             lower two bits of k = 16u + 4j + i                            64 bytes per block
///
/// Bytes of codes past K are zero; they have no effect, because activations past K are 0. q8
/// (quant/q8.h) is one of these formats: 8 bits, blocks of 32, f16 scales, no zero points. q6
/// (kSixBits) is another one, used only for weights that are floats in the model. 6-bit formats
/// have blocks of at least 32 and no zero points, and are not used for tables.
namespace llmc {
inline namespace LLMC_ISA {

enum class CodedScale : uint8_t { kF16, kF32 };
enum class CodedZero : uint8_t { kNone, kInteger, kFloat };
struct CodedFormat {
  uint32_t bits = 8;    // 4, 6 or 8
  uint32_t block = 32;  // 16, 32, 64, 128 or 256
  CodedScale scale = CodedScale::kF16;
  CodedZero zero = CodedZero::kNone;
  bool split = false;  // 6 bits, no zero point: the lower two bits are stored separately

  constexpr bool operator==(const CodedFormat&) const = default;
};

/// Smallest number of a coded format in WeightKind and TableKind.
inline constexpr uint16_t kFirstCoded = 0x100;
constexpr uint16_t coded_number(CodedFormat f) {
  uint32_t block = 0;
  while ((16u << block) < f.block) ++block;
  return static_cast<uint16_t>(
      kFirstCoded | (f.bits == 8 ? 1u : 0u) | block << 1 | static_cast<uint32_t>(f.scale) << 4 |
      static_cast<uint32_t>(f.zero) << 5 | (f.bits == 6 ? 128u : 0u) | (f.split ? 512u : 0u));
}
constexpr CodedFormat coded_format(uint16_t number) {
  return {(number & 1) != 0     ? 8u
          : (number & 128) != 0 ? 6u
                                : 4u,
          16u << (number >> 1 & 7), static_cast<CodedScale>(number >> 4 & 1),
          static_cast<CodedZero>(number >> 5 & 3), (number & 512) != 0};
}

/// 6 bits, blocks of 32, f16 scales: 6.5 bits per weight.
inline constexpr CodedFormat kSixBits{.bits = 6, .block = 32};
/// kSixBits as a split format.
inline constexpr CodedFormat kSplitSixBits{.bits = 6, .block = 32, .split = true};
/// Size of the first part of a 6-bit block, which contains the lower four bits of each code; the
/// upper two follow.
inline constexpr size_t kSixLowerBytes = kPanelRows * kBlock / 2;

/// The zero point of 4-bit codes without explicit zero points, and the differences between stored
/// and actual values of 6-bit codes and of 8-bit codes and zero points.
inline constexpr int kZeroPoint4 = 8, kZeroPoint6 = 32, kZeroPoint8 = 128;

/// Returns the minimum code.
constexpr int coded_lowest(CodedFormat f) {
  if (f.bits == 4 || f.zero == CodedZero::kFloat) return 0;
  return f.bits == 6 ? -kZeroPoint6 : -kZeroPoint8;
}

constexpr size_t coded_number_bytes(CodedFormat f) {
  return f.scale == CodedScale::kF16 ? sizeof(uint16_t) : sizeof(float);
}
/// Returns the size of the codes of one block of 32 for 8 rows, without a split format's lower
/// bits.
constexpr size_t coded_block_bytes(CodedFormat f) {
  return kPanelRows * kBlock * (f.split ? 4 : f.bits) / 8;
}
constexpr size_t coded_groups(CodedFormat f, size_t blocks) {
  return ceil_div(blocks * kBlock, f.block);
}
constexpr size_t coded_zero_bytes(CodedFormat f) {
  return f.zero == CodedZero::kNone      ? 0
         : f.zero == CodedZero::kInteger ? sizeof(uint8_t)
                                         : coded_number_bytes(f);
}
constexpr size_t coded_scale_offset(CodedFormat f, size_t blocks) {
  return blocks * coded_block_bytes(f);
}
constexpr size_t coded_zero_offset(CodedFormat f, size_t blocks) {
  return coded_scale_offset(f, blocks) +
         coded_groups(f, blocks) * kPanelRows * coded_number_bytes(f);
}
constexpr size_t coded_super_bytes(CodedFormat f, size_t blocks) {
  return round_up(
      coded_zero_offset(f, blocks) + coded_groups(f, blocks) * kPanelRows * coded_zero_bytes(f),
      kAlignment);
}
constexpr size_t coded_super_offset(CodedFormat f, size_t super) {
  return super * coded_super_bytes(f, kBlocksPerSuper);
}
/// Returns the total size of the superblocks of a panel.
constexpr size_t coded_supers_bytes(CodedFormat f, size_t k) {
  const size_t last = super_count(k) - 1;
  return coded_super_offset(f, last) + coded_super_bytes(f, blocks_in_super(k, last));
}

/// Size in bytes of the lower two bits of one block, for 8 rows, in a split format.
inline constexpr size_t kSplitLowerBytes = kPanelRows * kBlock / 4;
/// Return the offsets of the bounds and of the lower bits of block `block` in a panel of a split
/// format.
constexpr size_t split_bound_offset(CodedFormat f, size_t k) {
  const size_t last = super_count(k) - 1;
  return coded_super_offset(f, last) + coded_zero_offset(f, blocks_in_super(k, last));
}
constexpr size_t split_lower_offset(CodedFormat f, size_t k, size_t block) {
  const size_t bounds_end = split_bound_offset(f, k) + kPanelRows * sizeof(uint16_t);
  return round_up(bounds_end, kAlignment) + block * kSplitLowerBytes;
}

constexpr size_t coded_panel_bytes(CodedFormat f, size_t k) {
  return f.split ? split_lower_offset(f, k, block_count(k)) : coded_supers_bytes(f, k);
}

// ---- Access to single elements: used by packers to write, by tests and embedding lookups to read
// `panel` points to a panel, `row` is 0..7, `k_total` is the matrix's K, `group` counts along K.

constexpr float coded_load_number(CodedFormat f, const uint8_t* p) {
  return f.scale == CodedScale::kF16 ? f16_to_f32(load_u16(p)) : bits_float(load_u32(p));
}
/// Stores a scale or zero point. `x` must be representable in the format's width.
constexpr void coded_store_number(CodedFormat f, uint8_t* p, float x) {
  if (f.scale == CodedScale::kF16) {
    store_u16(p, f32_to_f16(x));
  } else {
    store_u32(p, float_bits(x));
  }
}
/// Returns the value of a stored code.
constexpr int coded_value(CodedFormat f, uint8_t stored) {
  if (f.bits == 4) return stored;
  if (f.bits == 6) return stored - kZeroPoint6;
  return static_cast<int8_t>(stored) + (f.zero == CodedZero::kFloat ? kZeroPoint8 : 0);
}
constexpr float coded_load_zero(CodedFormat f, const uint8_t* p) {
  if (f.zero == CodedZero::kFloat) return coded_load_number(f, p);
  if (f.zero == CodedZero::kNone) return f.bits == 4 ? static_cast<float>(kZeroPoint4) : 0.0f;
  return static_cast<float>(*p - (f.bits == 8 ? kZeroPoint8 : 0));
}
constexpr void coded_store_zero(CodedFormat f, uint8_t* p, float z) {
  if (f.zero == CodedZero::kFloat) return coded_store_number(f, p, z);
  *p = static_cast<uint8_t>(static_cast<int>(z) + (f.bits == 8 ? kZeroPoint8 : 0));
}

constexpr size_t coded_code_position(CodedFormat f, size_t row, size_t k) {
  const size_t block = (k % kSuper) / kBlock, in_block = k % kBlock;
  const size_t vector = f.bits == 8 ? in_block / 4 : in_block / 8;
  return coded_super_offset(f, k / kSuper) + block * coded_block_bytes(f) + vector * 32 + row * 4 +
         in_block % 4;
}
constexpr unsigned coded_code_shift(CodedFormat f, size_t k) {
  return f.bits != 8 && k % 8 >= 4 ? 4 : 0;
}
/// Return the byte offset in the panel, and the bit position in that byte, of the two bits of a
/// 6-bit code that are stored apart from the other four: the upper two, in a split format the lower
/// two.
constexpr size_t coded_two_position(CodedFormat f, size_t k_total, size_t row, size_t k) {
  const size_t at = (k % kBlock) / 16 * 32 + row * 4 + k % 4;
  if (f.split) return split_lower_offset(f, k_total, k / kBlock) + at;
  return coded_super_offset(f, k / kSuper) + (k % kSuper) / kBlock * coded_block_bytes(f) +
         kSixLowerBytes + at;
}
constexpr unsigned coded_two_shift(size_t k) {
  return k % 16 / 4 * 2;
}
struct CodedPosition {
  size_t scale, zero;
};
constexpr CodedPosition coded_position(CodedFormat f, size_t k_total, size_t row, size_t group) {
  const size_t per_super = kSuper / f.block;
  const size_t super = group / per_super, blocks = blocks_in_super(k_total, super);
  const size_t index = group % per_super * kPanelRows + row;
  const size_t base = coded_super_offset(f, super);
  return {base + coded_scale_offset(f, blocks) + index * coded_number_bytes(f),
          base + coded_zero_offset(f, blocks) + index * coded_zero_bytes(f)};
}

/// Sets a code in a zeroed panel. Each code may be set only once.
constexpr void coded_set_code(CodedFormat f, uint8_t* panel, size_t k_total, size_t row, size_t k,
                              int code) {
  uint8_t& byte = panel[coded_code_position(f, row, k)];
  if (f.bits == 6) {
    const int stored = code + kZeroPoint6;
    const int four = f.split ? stored >> 2 : stored & 15, two = f.split ? stored & 3 : stored >> 4;
    uint8_t& pair = panel[coded_two_position(f, k_total, row, k)];
    byte = static_cast<uint8_t>(byte | four << coded_code_shift(f, k));
    pair = static_cast<uint8_t>(pair | two << coded_two_shift(k));
  } else if (f.bits == 4) {
    byte = static_cast<uint8_t>(byte | ((code & 15) << coded_code_shift(f, k)));
  } else {
    byte = static_cast<uint8_t>(code - (f.zero == CodedZero::kFloat ? kZeroPoint8 : 0));
  }
}
constexpr void coded_set_group(CodedFormat f, uint8_t* panel, size_t k_total, size_t row,
                               size_t group, float scale, float zero) {
  const CodedPosition at = coded_position(f, k_total, row, group);
  coded_store_number(f, panel + at.scale, scale);
  if (f.zero != CodedZero::kNone) coded_store_zero(f, panel + at.zero, zero);
}
constexpr int coded_code(CodedFormat f, const uint8_t* panel, size_t k_total, size_t row,
                         size_t k) {
  const uint8_t byte = panel[coded_code_position(f, row, k)];
  if (f.bits == 8) return coded_value(f, byte);
  const int four = (byte >> coded_code_shift(f, k)) & 15;
  if (f.bits == 4) return four;
  const int two = panel[coded_two_position(f, k_total, row, k)] >> coded_two_shift(k) & 3;
  return coded_value(f, static_cast<uint8_t>(f.split ? four << 2 | two : four | two << 4));
}
constexpr float coded_scale(CodedFormat f, const uint8_t* panel, size_t k_total, size_t row,
                            size_t group) {
  return coded_load_number(f, panel + coded_position(f, k_total, row, group).scale);
}
constexpr float coded_zero(CodedFormat f, const uint8_t* panel, size_t k_total, size_t row,
                           size_t group) {
  return coded_load_zero(f, panel + coded_position(f, k_total, row, group).zero);
}
constexpr float coded_decode(CodedFormat f, const uint8_t* panel, size_t k_total, size_t row,
                             size_t k) {
  const float difference = static_cast<float>(coded_code(f, panel, k_total, row, k)) -
                           coded_zero(f, panel, k_total, row, k / f.block);
  return difference * coded_scale(f, panel, k_total, row, k / f.block);
}

// ---- The same as a row of a table: codes (4-bit: two per byte, low nibble first), scales, zeros

constexpr size_t coded_row_codes(CodedFormat f, size_t width) {
  return ceil_div(width * f.bits, 8);
}
constexpr size_t coded_row_bytes(CodedFormat f, size_t width) {
  return coded_row_codes(f, width) +
         ceil_div(width, f.block) * (coded_number_bytes(f) + coded_zero_bytes(f));
}
constexpr void coded_row_set_code(CodedFormat f, uint8_t* row, size_t i, int code) {
  if (f.bits == 4) {
    row[i / 2] = static_cast<uint8_t>(row[i / 2] | ((code & 15) << (i % 2 * 4)));
  } else {
    row[i] = static_cast<uint8_t>(code - (f.zero == CodedZero::kFloat ? kZeroPoint8 : 0));
  }
}
constexpr void coded_row_set_group(CodedFormat f, uint8_t* row, size_t width, size_t group,
                                   float scale, float zero) {
  uint8_t* scales = row + coded_row_codes(f, width);
  coded_store_number(f, scales + group * coded_number_bytes(f), scale);
  if (f.zero == CodedZero::kNone) return;
  uint8_t* zeros = scales + ceil_div(width, f.block) * coded_number_bytes(f);
  coded_store_zero(f, zeros + group * coded_zero_bytes(f), zero);
}
constexpr float coded_row_decode(CodedFormat f, const uint8_t* row, size_t width, size_t i) {
  const uint8_t* scales = row + coded_row_codes(f, width);
  const uint8_t* zeros = scales + ceil_div(width, f.block) * coded_number_bytes(f);
  const size_t group = i / f.block;
  const int stored = f.bits == 4 ? (row[i / 2] >> (i % 2 * 4)) & 15 : row[i];
  const float difference = static_cast<float>(coded_value(f, static_cast<uint8_t>(stored))) -
                           coded_load_zero(f, zeros + group * coded_zero_bytes(f));
  return difference * coded_load_number(f, scales + group * coded_number_bytes(f));
}

}  // namespace LLMC_ISA
}  // namespace llmc

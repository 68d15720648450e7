#pragma once

#include <stddef.h>
#include <stdint.h>

#include "llmc/half.h"

/// Common layout of all packed weight matrices. A matrix [rows, K] is a sequence of panels of 8
/// rows (row r is lane r % 8 of panel r / 8). The last panel is padded with rows of zeros. Panels
/// are contiguous, and the size of each is a multiple of 64 bytes (q4: 16). Except in split formats
/// (quant/coded.h), the data of a panel are in the order in which kernels read them.
namespace llmc {
inline namespace LLMC_ISA {

/// Number of rows in a panel; each row is one 32-bit lane.
inline constexpr size_t kPanelRows = 8;
/// Number of elements along K in a block. In q4 and q8, the weights of a row in a block share a
/// scale.
inline constexpr size_t kBlock = 32;
/// Number of elements along K in a superblock, whose activations share a scale. Results are
/// accumulated in floats once per superblock.
inline constexpr size_t kSuper = 256;
inline constexpr size_t kBlocksPerSuper = kSuper / kBlock;
/// Alignment in bytes of panels (except q4), tables and scratch areas.
inline constexpr size_t kAlignment = 64;

constexpr size_t ceil_div(size_t a, size_t b) {
  return (a + b - 1) / b;
}
constexpr size_t round_up(size_t a, size_t b) {
  return ceil_div(a, b) * b;
}

constexpr size_t panel_count(size_t rows) {
  return ceil_div(rows, kPanelRows);
}
/// Returns the number of blocks of 32 along K. The last block may extend past K, where bytes of
/// codes are zero.
constexpr size_t block_count(size_t k) {
  return ceil_div(k, kBlock);
}
constexpr size_t super_count(size_t k) {
  return ceil_div(k, kSuper);
}
/// Returns the number of blocks in superblock `super` (8, or fewer in the last one).
constexpr size_t blocks_in_super(size_t k, size_t super) {
  const size_t left = block_count(k) - super * kBlocksPerSuper;
  return left < kBlocksPerSuper ? left : kBlocksPerSuper;
}

/// Unaligned little-endian access to packed bytes, usable in constant expressions.
constexpr uint16_t load_u16(const uint8_t* p) {
  return static_cast<uint16_t>(p[0] | (static_cast<uint32_t>(p[1]) << 8));
}
constexpr void store_u16(uint8_t* p, uint16_t x) {
  p[0] = static_cast<uint8_t>(x);
  p[1] = static_cast<uint8_t>(x >> 8);
}
constexpr uint32_t load_u32(const uint8_t* p) {
  return static_cast<uint32_t>(load_u16(p)) | (static_cast<uint32_t>(load_u16(p + 2)) << 16);
}
constexpr void store_u32(uint8_t* p, uint32_t x) {
  store_u16(p, static_cast<uint16_t>(x));
  store_u16(p + 2, static_cast<uint16_t>(x >> 16));
}

}  // namespace LLMC_ISA
}  // namespace llmc

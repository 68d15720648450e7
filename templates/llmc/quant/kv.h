#pragma once

#include "llmc/quant/layout.h"

/// Storage of keys and values in the blocks of the KV cache. The layout of one layer in a block of
/// `block` tokens (a multiple of 8), with head_dim padded to a multiple of 8 (Dp):
///
///     keys    [kv_heads, block/8, Dp, 8]   eight tokens adjacent
///     values  [kv_heads, Dp/8, block, 8]   eight dims adjacent
///
/// each in one of these formats (docs/numerics.md):
///
///     f32
///     f16    rounded to nearest even
///     int8   i8 codes. Keys: the codes of 8 tokens are followed by their scale f32[8] and
///            midpoint f32[8]; key = scale * code + midpoint. Values: all codes are followed by
///            their scales f32[kv_heads, block], padded with zeros to a multiple of 64 bytes;
///            value = scale * code
///     fp8    values only: as int8, but a code is read as E4M3 divided by 2^8
namespace llmc {
inline namespace LLMC_ISA {

enum class KvFormat : uint8_t { kF32, kF16, kInt8, kFp8 };

/// Formats of the keys and values of a model.
struct KvFormats {
  KvFormat keys = KvFormat::kF32, values = KvFormat::kF32;

  constexpr bool operator==(const KvFormats&) const = default;
};

/// Returns the number that represents the formats in saved states; 0 if both are f32.
constexpr uint32_t kv_format_number(KvFormats formats) {
  return static_cast<uint32_t>(formats.keys) | static_cast<uint32_t>(formats.values) << 8;
}

/// Returns whether the numbers are codes with one scale per token and head.
constexpr bool kv_has_scale(KvFormat format) {
  return format == KvFormat::kInt8 || format == KvFormat::kFp8;
}
/// Returns the size of one number, without its scale.
constexpr size_t kv_number_bytes(KvFormat format) {
  return format == KvFormat::kF32 ? sizeof(float) : kv_has_scale(format) ? 1 : sizeof(uint16_t);
}

/// Returns head_dim rounded up to a multiple of 8.
constexpr size_t padded_dim(size_t head_dim) {
  return round_up(head_dim, kPanelRows);
}
/// Returns the size of the keys of one head and eight tokens.
constexpr size_t kv_key_group_bytes(KvFormat format, size_t head_dim) {
  return padded_dim(head_dim) * kPanelRows * kv_number_bytes(format) +
         (kv_has_scale(format) ? 2 * kPanelRows * sizeof(float) : 0);
}
/// Returns the size of the keys of one layer of a block.
constexpr size_t kv_key_bytes(KvFormat format, size_t kv_heads, size_t head_dim, size_t block) {
  return kv_heads * (block / kPanelRows) * kv_key_group_bytes(format, head_dim);
}
/// Returns the size of the values of one layer of a block.
constexpr size_t kv_value_bytes(KvFormat format, size_t kv_heads, size_t head_dim, size_t block) {
  return kv_heads * padded_dim(head_dim) * block * kv_number_bytes(format) +
         (kv_has_scale(format) ? round_up(kv_heads * block * sizeof(float), kAlignment) : 0);
}

}  // namespace LLMC_ISA
}  // namespace llmc

#pragma once

#include "llmc/math.h"
#include "llmc/sizes.h"

/// Number formats of the KV cache: functions that load eight numbers, and functions that quantize
/// a key or value row of one token and head (docs/numerics.md, "The cache").
namespace llmc {
inline namespace LLMC_ISA {

/// The memory format of keys or values for Lanes (simd/wide.h). Codes are loaded without their
/// scale. With at most kConvertedRows query rows, the loops of every row tile convert the numbers.
/// With more rows, a copy of the tile as floats (WidenedTile) costs less.
template <KvFormat kFormat>
struct KvNumbers;
template <>
struct KvNumbers<KvFormat::kF32> : Floats {
  static constexpr size_t kConvertedRows = ~size_t{0};  // nothing is converted
};
/// kConvertedRows of formats that are converted quickly. If one instruction converts 16 numbers,
/// conversion in the loops always costs less than a copy.
inline constexpr size_t kQuickConversionRows = kRegisterFloats == 16 ? ~size_t{0} : 12;
template <>
struct KvNumbers<KvFormat::kF16> : Halves {
  static constexpr size_t kConvertedRows = kQuickConversionRows;
};
template <>
struct KvNumbers<KvFormat::kInt8> {
  static constexpr size_t kBytes = 1;
  static constexpr size_t kConvertedRows = kQuickConversionRows;
  static LLMC_INLINE F32x8 load(const unsigned char* p) { return to_f32(load_i8(p)); }
  static LLMC_INLINE F32x16 load(const unsigned char* p, const unsigned char* q) {
    return load_i8_f32(p, q);
  }
};
template <>
struct KvNumbers<KvFormat::kFp8> {
  static constexpr size_t kBytes = 1;
  static constexpr size_t kConvertedRows = kAttentionRowTile;  // a single tile of rows
  static LLMC_INLINE F32x8 load(const unsigned char* p) { return load_e4m3(p); }
  static LLMC_INLINE F32x16 load(const unsigned char* p, const unsigned char* q) {
    return join(load_e4m3(p), load_e4m3(q));
  }
};

/// Limits for quantization. The inverse of a scale might be infinite for ranges or magnitudes below
/// kKvSmallest, and sums of two numbers for magnitudes of at least kKvLargest.
inline constexpr float kKvSmallest = 0x1p-96f, kKvLargest = 0x1p126f;

/// Dequantization of a row of codes: scale * f(code) + midpoint.
struct KvScale {
  float scale, midpoint;
};

/// Maximum magnitude, minimum and maximum of the first kCount numbers of a row, which is padded to
/// a multiple of 8. For the magnitude, NaN is larger than all numbers.
template <size_t kCount>
struct KvExtent {
  float magnitude, low, high;

  explicit LLMC_INLINE KvExtent(const float* row) {
    const F32x8 first = splat(row[0]);
    I32x8 largest_bits = zero_i32();
    F32x8 least = first, most = first;
    for (size_t i = 0; i < kCount; i += 8) {
      F32x8 v = load(row + i);
      if (i + 8 > kCount) v = select(lanes_below(kCount - i), v, first);
      // The bits of non-negative floats have the same order as integers, with NaN on top.
      largest_bits = max_i32(largest_bits, bits(v) & splat_i32(0x7fffffff));
      least = min(v, least);
      most = max(v, most);
    }
    magnitude = bits_float(static_cast<uint32_t>(reduce_max_i32(largest_bits)));
    low = -reduce_max(zero_f32() - least);  // the minimum
    high = reduce_max(most);
  }
  LLMC_INLINE bool usable() const { return float_bits(magnitude) < float_bits(kKvLargest); }
};

/// Converts a row of kPadded numbers to one-byte codes. code(F32x8) converts eight numbers; its
/// results are saturated to -128 .. 127.
template <size_t kPadded, class Code>
LLMC_INLINE void store_codes_of(const float* row, unsigned char* codes, Code code) {
  for (size_t i = 0; i < kPadded; i += 32) {
    I32x8 part[4];
    for (size_t j = 0; j < 4; ++j) {
      part[j] = i + 8 * j < kPadded ? code(load(row + i + 8 * j)) : zero_i32();
    }
    int8_t bytes[32];
    store_i8(bytes, part[0], part[1], part[2], part[3]);
    __builtin_memcpy(codes + i, bytes, kPadded - i < 32 ? kPadded - i : 32);
  }
}

inline constexpr KvScale kKvNaN{bits_float(0x7fc00000u), 0};

/// Quantizes a key, f32[padded dim], to int8 codes: the range from its minimum to its maximum has
/// 254 steps around the midpoint. The scale is NaN if a number is NaN, infinite or, in magnitude,
/// at least kKvLargest.
template <size_t kHeadDim>
LLMC_INLINE KvScale quantize_keys(const float* row, unsigned char* codes) {
  constexpr size_t kPadded = padded_dim(kHeadDim);
  const KvExtent<kHeadDim> extent(row);
  const bool usable = extent.usable();
  const float range = extent.high - extent.low;
  const bool empty = !usable || range < kKvSmallest;
  const float midpoint = (extent.low + extent.high) * 0.5f;
  const F32x8 inverse = splat(empty ? 0.0f : 254.0f / range), from = splat(midpoint);
  store_codes_of<kPadded>(row, codes, [=](F32x8 x) LLMC_INLINE_LAMBDA {
    return empty ? zero_i32() : round_to_i32((x - from) * inverse);
  });
  __builtin_memset(codes + kHeadDim, 0, kPadded - kHeadDim);
  if (!usable) return kKvNaN;
  return {empty ? 0.0f : range / 254.0f, midpoint};
}

/// Returns 2^8 y, |y| <= 1.75, as an E4M3 code in a signed byte (sign, 4 exponent bits, 3 fraction
/// bits), rounded to nearest even.
LLMC_INLINE I32x8 e4m3_code(F32x8 y) {
  const I32x8 magnitude = bits(y) & splat_i32(0x7fffffff);
  const I32x8 odd = shift_right_arithmetic<20>(magnitude) & splat_i32(1);
  const I32x8 rounded = magnitude + splat_i32(0x7ffff) + odd;
  const I32x8 normal = shift_right_arithmetic<20>(rounded) - splat_i32(112 << 3);
  // Below 2^-14, codes are multiples of 2^-17.
  const I32x8 subnormal = round_to_i32(from_bits(magnitude) * splat(0x1p17f));
  const Mask8 small = less(from_bits(magnitude), splat(0x1p-14f));
  const F32x8 code = select(small, from_bits(subnormal), from_bits(normal));
  const I32x8 sign = shift_right_arithmetic<24>(bits(y) & splat_i32(INT32_MIN));
  return bits(code) | sign;
}

/// Quantizes a value row, f32[padded dim], to one-byte codes of kFormat (kInt8 or kFp8). Returns
/// the scale, which maps the maximum magnitude to the largest code. It is NaN in the same cases as
/// for keys.
template <KvFormat kFormat, size_t kHeadDim>
LLMC_INLINE float quantize_values(const float* row, unsigned char* codes) {
  constexpr float kLargest = kFormat == KvFormat::kInt8 ? 127.0f : 1.75f;
  const KvExtent<kHeadDim> extent(row);
  const bool usable = extent.usable();
  const bool empty = !usable || extent.magnitude < kKvSmallest;
  const F32x8 inverse = splat(empty ? 0.0f : kLargest / extent.magnitude);
  store_codes_of<padded_dim(kHeadDim)>(row, codes, [=](F32x8 x) LLMC_INLINE_LAMBDA {
    if (empty) return zero_i32();
    if constexpr (kFormat == KvFormat::kInt8) return round_to_i32(x * inverse);
    return e4m3_code(x * inverse);
  });
  if (!usable) return kKvNaN.scale;
  return empty ? 0.0f : extent.magnitude / kLargest;
}

/// Stores a row, f32[padded dim], as contiguous numbers of a format without scales.
template <KvFormat kFormat, size_t kPadded>
LLMC_INLINE void store_numbers(const float* row, unsigned char* numbers) {
  for (size_t i = 0; i < kPadded; i += 8) {
    unsigned char* p = numbers + i * KvNumbers<kFormat>::kBytes;
    if constexpr (kFormat == KvFormat::kF16) {
      store_f16(p, load(row + i));
    } else {
      store(reinterpret_cast<float*>(p), load(row + i));
    }
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc

#pragma once

#define LLMC_EXTENDS_AVX2
#include "llmc/simd/avx2.h"
#include "llmc/tiles/avxvnni.h"

/// The operations of simd/vec.h for AVX2 with AVX-VNNI, which adds dot products of bytes. There are
/// 16 registers.
namespace llmc {
inline namespace LLMC_ISA {

inline constexpr size_t kTokenTile = 6, kPanelTile = 1;  // only for coded 4-bit weights
inline constexpr size_t kActivationTokens = 1, kActivationStep = 32, kActivationBlocks = 1;
inline constexpr bool kExactPanels = true, kSquareTiles = false;
inline constexpr bool kSignedCodes = false, kByteCodes = true, kVnniCodes = false;
inline constexpr size_t kVnniByteTokens = 0;
inline constexpr size_t kAttentionSums = 12, kAttentionRowTile = 6;

LLMC_INLINE I32x8 dot_i8(I32x8 total, Codes c, Activation4 a) {
  // vpdpbusd needs one unsigned factor: |code| * (activation with the code's sign).
  return {_mm256_dpbusd_avx_epi32(total.v, _mm256_abs_epi8(c.v), _mm256_sign_epi8(a.v, c.v))};
}
LLMC_INLINE I32x8 dot_u6(I32x8 total, Codes c, Activation4 a, Codes d, Activation4 b) {
  return {_mm256_dpbusd_avx_epi32(_mm256_dpbusd_avx_epi32(total.v, c.v, a.v), d.v, b.v)};
}

/// The vectors of simd/vnni_exact.h.
struct VnniVector {
  static constexpr size_t kPanels = 1;
  static constexpr size_t kTileVectors = kVnniVectors, kTileTokens = kVnniTokens;

  static LLMC_INLINE __m256i zero() { return _mm256_setzero_si256(); }
  static LLMC_INLINE __m256i load(const uint8_t* p) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
  }
  static LLMC_INLINE void store(uint8_t* p, __m256i v) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(p), v);
  }
  static LLMC_INLINE __m256i splat4(const void* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof(four));
    return _mm256_set1_epi32(four);
  }
  static LLMC_INLINE __m256i dot_bytes(__m256i sum, __m256i u8, __m256i s8) {
    return _mm256_dpbusd_avx_epi32(sum, u8, s8);
  }
  static LLMC_INLINE __m256i dot_pairs(__m256i sum, __m256i a, __m256i b) {
    // clang 19 would compile the intrinsic to two instructions.
    __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
    return sum;
  }

  static LLMC_INLINE __m256i load_rows(const uint8_t* const* p) { return load_codes(p[0]).v; }
  static LLMC_INLINE __m256i low(__m256i v) { return low_nibbles({v}).v; }
  static LLMC_INLINE __m256i high(__m256i v) { return high_nibbles({v}).v; }
  /// Multiplies both bytes of each 16-bit lane with one 16-bit multiplication. No product overflows
  /// into the other byte, because both are below 256.
  static LLMC_INLINE __m256i scaled(__m256i nibbles, __m256i scales) {
    return _mm256_mullo_epi16(nibbles, scales);
  }
  static LLMC_INLINE __m256i spread(const uint8_t* const* p) { return load_u8(p[0]).v; }
  static LLMC_INLINE __m256i in_halves(__m256i v) {
    return _mm256_or_si256(v, _mm256_slli_epi32(v, 16));
  }
  static LLMC_INLINE __m256i pairs(const uint8_t* const* p) { return load_min_pair(p[0]).v; }

  static LLMC_INLINE F32x8 load_floats(const float* p) { return llmc::load(p); }
  static LLMC_INLINE F32x8 load_y(float* const* y, size_t at, bool first) {
    return first ? zero_f32() : llmc::load(y[0] + at);
  }
  static LLMC_INLINE void store_y(float* const* y, size_t at, F32x8 v) {
    llmc::store(y[0] + at, v);
  }
  /// Computes the same as Q4Fold (kernels/product_q4.h).
  static LLMC_INLINE F32x8 fold(F32x8 y, F32x8 scale, F32x8 min, float activation_scale, __m256i i1,
                                __m256i i2) {
    return fma(splat(activation_scale), fma(scale, to_f32({i1}), min * to_f32({i2})), y);
  }
};

}  // namespace LLMC_ISA
}  // namespace llmc

#include "llmc/simd/vnni_exact.h"

namespace llmc {
inline namespace LLMC_ISA {

struct ExactPanels : VnniPanels<VnniVector> {};

}  // namespace LLMC_ISA
}  // namespace llmc

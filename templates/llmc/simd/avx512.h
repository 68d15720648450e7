#pragma once

#define LLMC_EXTENDS_AVX2
#include "llmc/simd/avx2.h"
#ifndef LLMC_EXTENDS_AVX512
#include "llmc/tiles/avx512.h"
#endif

/// The operations of simd/vec.h for AVX-512 (F, BW, VL, DQ) with VNNI: the operations of AVX2 on
/// vectors of 8 lanes, which can use 32 registers; vectors of 16 floats (simd/wide.h); and exact
/// panels (kernels/product_q4_exact.h) in vectors of 16 rows.
namespace llmc {
inline namespace LLMC_ISA {

inline constexpr size_t kTokenTile = 6, kPanelTile = 1;  // only for coded 4-bit weights
inline constexpr size_t kActivationTokens = 1, kActivationStep = 32;
#ifndef LLMC_EXTENDS_AVX512
inline constexpr size_t kActivationBlocks = 1;
#endif
inline constexpr bool kExactPanels = true, kSquareTiles = false;
inline constexpr bool kSignedCodes = false, kByteCodes = true, kVnniCodes = true;
inline constexpr size_t kAttentionSums = 48, kAttentionRowTile = 12;

LLMC_INLINE I32x8 dot_i8(I32x8 total, Codes c, Activation4 a) {
  // vpdpbusd needs one unsigned factor: |code| * (activation with the code's sign).
  return {_mm256_dpbusd_epi32(total.v, _mm256_abs_epi8(c.v), _mm256_sign_epi8(a.v, c.v))};
}
LLMC_INLINE I32x8 dot_u6(I32x8 total, Codes c, Activation4 a, Codes d, Activation4 b) {
  return {_mm256_dpbusd_epi32(_mm256_dpbusd_epi32(total.v, c.v, a.v), d.v, b.v)};
}

#define LLMC_F32X16  // simd/wide.h
struct F32x16 {
  __m512 v;
};
LLMC_INLINE F32x16 splat16(float x) {
  return {_mm512_set1_ps(x)};
}
LLMC_INLINE F32x16 splat16_at(const float* p) {
  return {_mm512_set1_ps(*p)};
}
LLMC_INLINE F32x16 zero_f32x16() {
  return {_mm512_setzero_ps()};
}
LLMC_INLINE F32x16 load(const float* p, const float* q) {
  return {_mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(p)), _mm256_loadu_ps(q), 1)};
}
LLMC_INLINE F32x16 load_f16(const uint8_t* p, const uint8_t* q) {
  const __m256i first =
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(q));
  return {_mm512_cvtph_ps(_mm256_inserti128_si256(first, second, 1))};
}
LLMC_INLINE F32x16 load_i8_f32(const uint8_t* p, const uint8_t* q) {
  const __m128i first = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  const __m128i second = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(q));
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_unpacklo_epi64(first, second)))};
}
LLMC_INLINE void store(float* p, float* q, F32x16 a) {
  _mm256_storeu_ps(p, _mm512_castps512_ps256(a.v));
  _mm256_storeu_ps(q, _mm512_extractf32x8_ps(a.v, 1));
}
LLMC_INLINE F32x16 join(F32x8 a, F32x8 b) {
  return {_mm512_insertf32x8(_mm512_castps256_ps512(a.v), b.v, 1)};
}
LLMC_INLINE F32x8 low(F32x16 a) {
  return {_mm512_castps512_ps256(a.v)};
}
LLMC_INLINE F32x8 high(F32x16 a) {
  return {_mm512_extractf32x8_ps(a.v, 1)};
}
LLMC_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
LLMC_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
LLMC_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
LLMC_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
LLMC_INLINE F32x16 add_exponent(F32x16 a, F32x16 n) {
  const __m512i field = _mm512_slli_epi32(_mm512_castps_si512(n.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a.v), field))};
}
LLMC_INLINE F32x16 zero_below(F32x16 x, float limit, F32x16 a) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, _mm512_set1_ps(limit), _CMP_NLT_UQ), a.v)};
}

/// The vectors of simd/vnni_exact.h.
struct VnniVector {
  static constexpr size_t kPanels = 2;
  static constexpr size_t kTileVectors = kVnniVectors, kTileTokens = kVnniTokens;

  static LLMC_INLINE __m512i zero() { return _mm512_setzero_si512(); }
  static LLMC_INLINE __m512i load(const uint8_t* p) { return _mm512_load_si512(p); }
  static LLMC_INLINE void store(uint8_t* p, __m512i v) { _mm512_store_si512(p, v); }
  static LLMC_INLINE __m512i splat4(const void* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof(four));
    return _mm512_set1_epi32(four);
  }
  static LLMC_INLINE __m512i dot_bytes(__m512i sum, __m512i u8, __m512i s8) {
    return _mm512_dpbusd_epi32(sum, u8, s8);
  }
  static LLMC_INLINE __m512i dot_pairs(__m512i sum, __m512i a, __m512i b) {
    // clang 19 would compile the intrinsic to two instructions.
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  }

  static LLMC_INLINE __m512i load_rows(const uint8_t* const* p) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(half(p[0])), half(p[1]), 1);
  }
  static LLMC_INLINE __m512i low(__m512i v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
  static LLMC_INLINE __m512i high(__m512i v) { return low(_mm512_srli_epi16(v, 4)); }
  /// Multiplies both bytes of each 16-bit lane with one 16-bit multiplication. No product overflows
  /// into the other byte, because both are below 256.
  static LLMC_INLINE __m512i scaled(__m512i nibbles, __m512i scales) {
    return _mm512_mullo_epi16(nibbles, scales);
  }
  static LLMC_INLINE __m512i spread(const uint8_t* const* p) {
    const __m128i first = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p[0]));
    const __m128i second = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p[1]));
    return _mm512_cvtepu8_epi32(_mm_unpacklo_epi64(first, second));
  }
  static LLMC_INLINE __m512i in_halves(__m512i v) {
    return _mm512_or_si512(v, _mm512_slli_epi32(v, 16));
  }
  static LLMC_INLINE __m512i pairs(const uint8_t* const* p) {
    const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p[0]));
    const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p[1]));
    return _mm512_cvtepu8_epi16(_mm256_setr_m128i(first, second));
  }

  static LLMC_INLINE __m512 load_floats(const float* p) { return _mm512_loadu_ps(p); }
  static LLMC_INLINE __m512 load_y(float* const* y, size_t at, bool first) {
    const __m512 low = _mm512_castps256_ps512(_mm256_loadu_ps(y[0] + at));
    const __m512 all = _mm512_insertf32x8(low, _mm256_loadu_ps(y[1] + at), 1);
    return _mm512_maskz_mov_ps(first ? __mmask16{0} : __mmask16{0xffff}, all);
  }
  static LLMC_INLINE void store_y(float* const* y, size_t at, __m512 v) {
    _mm256_storeu_ps(y[0] + at, _mm512_castps512_ps256(v));
    _mm256_storeu_ps(y[1] + at, _mm512_extractf32x8_ps(v, 1));
  }
  template <int n>
  static LLMC_INLINE __m512i plus(__m512i v) {
    return _mm512_add_epi8(v, _mm512_set1_epi8(static_cast<char>(n)));
  }
  template <int kUpper>
  static LLMC_INLINE __m512i with_upper(__m512i low, __m512i upper) {
    constexpr int kShift = 4 - 2 * kUpper;
    const __m512i moved = kShift > 0   ? _mm512_slli_epi16(upper, kShift > 0 ? kShift : 0)
                          : kShift < 0 ? _mm512_srli_epi16(upper, kShift < 0 ? -kShift : 0)
                                       : upper;
    return _mm512_or_si512(low, _mm512_and_si512(moved, _mm512_set1_epi8(0x30)));
  }
  template <int kPair>
  static LLMC_INLINE __m512i with_lower(__m512i packed, __m512i lower) {
    const __m512i moved =
        kPair % 2 == 0 ? _mm512_slli_epi16(packed, 2) : _mm512_srli_epi16(packed, 2);
    const __m512i two = kPair == 0 ? lower : _mm512_srli_epi16(lower, 2 * kPair);
    return _mm512_or_si512(_mm512_and_si512(moved, _mm512_set1_epi8(0x3c)),
                           _mm512_and_si512(two, _mm512_set1_epi8(3)));
  }
  static LLMC_INLINE __m512 join(const F32x8 (&panels)[kPanels]) {
    return llmc::join(panels[0], panels[1]).v;
  }
  static LLMC_INLINE __m512i add(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }
  static LLMC_INLINE __m512 add_products(__m512 part, __m512 scale, __m512i products) {
    return _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(products), part);
  }
  static LLMC_INLINE __m512 add_part(__m512 y, float scale, __m512 part) {
    return _mm512_fmadd_ps(_mm512_set1_ps(scale), part, y);
  }
  /// Computes the same as Q4Fold (kernels/product_q4.h).
  static LLMC_INLINE __m512 fold(__m512 y, __m512 scale, __m512 min, float activation_scale,
                                 __m512i i1, __m512i i2) {
    const __m512 mins = _mm512_mul_ps(min, _mm512_cvtepi32_ps(i2));
    const __m512 sum = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(i1), mins);
    return _mm512_fmadd_ps(_mm512_set1_ps(activation_scale), sum, y);
  }

 private:
  static LLMC_INLINE __m256i half(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
};

}  // namespace LLMC_ISA
}  // namespace llmc

#include "llmc/simd/vnni_exact.h"

#ifndef LLMC_EXTENDS_AVX512
namespace llmc {
inline namespace LLMC_ISA {

struct ExactPanels : VnniPanels<VnniVector> {};

}  // namespace LLMC_ISA
}  // namespace llmc
#endif

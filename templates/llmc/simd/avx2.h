#pragma once

// __SCE__ (PlayStation) makes clang's header include only the instruction sets of the target, if
// C++20's modules are off (-Xclang -fno-cxx-modules). Parsing all instruction sets would take
// longer than parsing llmc's own headers.
#if defined(__clang__) && !defined(__SCE__)
#define __SCE__
#include <immintrin.h>
#undef __SCE__
#else
#include <immintrin.h>
#endif
#include <stddef.h>
#include <stdint.h>

#include "llmc/target.h"
#ifndef LLMC_EXTENDS_AVX2
#include "llmc/tiles/avx2.h"
#endif

/// The operations of simd/vec.h for AVX2 + FMA + F16C. Headers of targets that extend AVX2 define
/// LLMC_EXTENDS_AVX2, include this header, and define their own tile sizes, dot_i8() and dot_u6().
namespace llmc {
inline namespace LLMC_ISA {

#ifndef LLMC_EXTENDS_AVX2
inline constexpr size_t kActivationTokens = 1, kActivationStep = 32, kActivationBlocks = 1;
inline constexpr bool kExactPanels = false, kSquareTiles = false;
inline constexpr bool kSignedCodes = false, kByteCodes = false, kVnniCodes = false;
inline constexpr size_t kVnniByteTokens = 0;
inline constexpr size_t kAttentionSums = 12, kAttentionRowTile = 6;
#endif
inline constexpr bool kPrefetches = true;

struct F32x8 {
  __m256 v;
};
struct I32x8 {
  __m256i v;
};
struct Mask8 {
  __m256 v;
};

LLMC_INLINE F32x8 splat(float x) {
  return {_mm256_set1_ps(x)};
}
LLMC_INLINE F32x8 splat_at(const float* p) {
  return splat(*p);
}
LLMC_INLINE F32x8 splat_lane(F32x8 a, size_t lane) {
  return {_mm256_permutevar8x32_ps(a.v, _mm256_set1_epi32(static_cast<int>(lane)))};
}
LLMC_INLINE F32x8 zero_f32() {
  return {_mm256_setzero_ps()};
}
LLMC_INLINE F32x8 load(const float* p) {
  return {_mm256_loadu_ps(p)};
}
LLMC_INLINE void store(float* p, F32x8 a) {
  _mm256_storeu_ps(p, a.v);
}
LLMC_INLINE F32x8 load_f16(const uint8_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
LLMC_INLINE void store_f16(uint8_t* p, F32x8 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
LLMC_INLINE F32x8 load_bf16(const uint8_t* p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16))};
}
LLMC_INLINE Mask8 lanes_below(size_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i limit = _mm256_set1_epi32(static_cast<int>(n));
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, lane))};
}
LLMC_INLINE F32x8 load_partial(const float* p, size_t n) {
  return {_mm256_maskload_ps(p, _mm256_castps_si256(lanes_below(n).v))};
}
LLMC_INLINE void store_partial(float* p, F32x8 a, size_t n) {
  _mm256_maskstore_ps(p, _mm256_castps_si256(lanes_below(n).v), a.v);
}
LLMC_INLINE F32x8 operator+(F32x8 a, F32x8 b) {
  return {_mm256_add_ps(a.v, b.v)};
}
LLMC_INLINE F32x8 operator-(F32x8 a, F32x8 b) {
  return {_mm256_sub_ps(a.v, b.v)};
}
LLMC_INLINE F32x8 operator*(F32x8 a, F32x8 b) {
  return {_mm256_mul_ps(a.v, b.v)};
}
LLMC_INLINE F32x8 operator/(F32x8 a, F32x8 b) {
  return {_mm256_div_ps(a.v, b.v)};
}
LLMC_INLINE F32x8 fma(F32x8 a, F32x8 b, F32x8 c) {
  return {_mm256_fmadd_ps(a.v, b.v, c.v)};
}
LLMC_INLINE F32x8 sqrt(F32x8 a) {
  return {_mm256_sqrt_ps(a.v)};
}
LLMC_INLINE F32x8 max(F32x8 a, F32x8 b) {
  return {_mm256_max_ps(a.v, b.v)};
}
LLMC_INLINE F32x8 min(F32x8 a, F32x8 b) {
  return {_mm256_min_ps(a.v, b.v)};
}
LLMC_INLINE Mask8 less(F32x8 a, F32x8 b) {
  return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)};
}
LLMC_INLINE F32x8 select(Mask8 m, F32x8 a, F32x8 b) {
  return {_mm256_blendv_ps(b.v, a.v, m.v)};
}

template <int d>
LLMC_INLINE F32x8 butterfly(F32x8 a) {
  const __m256 other = d == 4   ? _mm256_permute2f128_ps(a.v, a.v, 1)
                       : d == 2 ? _mm256_permute_ps(a.v, 0x4e)
                                : _mm256_permute_ps(a.v, 0xb1);
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i second = _mm256_and_si256(lane, _mm256_set1_epi32(d));
  const __m256i sign = _mm256_slli_epi32(second, d == 4 ? 29 : d == 2 ? 30 : 31);
  return {_mm256_add_ps(other, _mm256_xor_ps(a.v, _mm256_castsi256_ps(sign)))};
}

LLMC_INLINE I32x8 splat_i32(int32_t x) {
  return {_mm256_set1_epi32(x)};
}
LLMC_INLINE I32x8 zero_i32() {
  return {_mm256_setzero_si256()};
}
LLMC_INLINE I32x8 load_i32(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
LLMC_INLINE void store_i32(int32_t* p, I32x8 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v);
}
LLMC_INLINE I32x8 operator+(I32x8 a, I32x8 b) {
  return {_mm256_add_epi32(a.v, b.v)};
}
LLMC_INLINE I32x8 operator-(I32x8 a, I32x8 b) {
  return {_mm256_sub_epi32(a.v, b.v)};
}
LLMC_INLINE I32x8 operator&(I32x8 a, I32x8 b) {
  return {_mm256_and_si256(a.v, b.v)};
}
LLMC_INLINE I32x8 operator|(I32x8 a, I32x8 b) {
  return {_mm256_or_si256(a.v, b.v)};
}
template <int n>
LLMC_INLINE I32x8 shift_left(I32x8 a) {
  return {_mm256_slli_epi32(a.v, n)};
}
template <int n>
LLMC_INLINE I32x8 shift_right_arithmetic(I32x8 a) {
  return {_mm256_srai_epi32(a.v, n)};
}
LLMC_INLINE I32x8 max_i32(I32x8 a, I32x8 b) {
  return {_mm256_max_epi32(a.v, b.v)};
}
LLMC_INLINE int32_t reduce_add_i32(I32x8 a) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}
LLMC_INLINE F32x8 to_f32(I32x8 a) {
  return {_mm256_cvtepi32_ps(a.v)};
}
LLMC_INLINE F32x8 upper_to_f32(I32x8 a) {
  return to_f32(shift_right_arithmetic<16>(a));
}
LLMC_INLINE I32x8 bits(F32x8 a) {
  return {_mm256_castps_si256(a.v)};
}
LLMC_INLINE F32x8 from_bits(I32x8 a) {
  return {_mm256_castsi256_ps(a.v)};
}
LLMC_INLINE I32x8 load_u8(const uint8_t* p) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))};
}
LLMC_INLINE I32x8 load_i8(const uint8_t* p) {
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))};
}
/// Converts each byte to an f16: the sign, a zero bit, the other seven bits, then zeros.
LLMC_INLINE F32x8 load_e4m3(const uint8_t* p) {
  const __m128i wide = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m128i mask = _mm_set1_epi16(static_cast<int16_t>(0xbfff));
  return {_mm256_cvtph_ps(_mm_and_si128(_mm_slli_epi16(wide, 7), mask))};
}

struct Codes {
  __m256i v;
};
struct Activation4 {
  __m256i v;
};
/// Two 16-bit lanes for each row. A lane is the sum of at most eight pairs of u4 x i8 products,
/// which stays below 2^15: 8 * 2 * 15 * 128 = 30 720.
struct BlockSum {
  __m256i v;
};
/// Without this barrier, clang 19 reorders the integer sums of a tile and starts the next block
/// early. It then runs out of registers and spills totals to the stack.
LLMC_INLINE BlockSum optimization_barrier(BlockSum sum) {
  __asm__ volatile("" : "+x"(sum.v));
  return sum;
}
LLMC_INLINE I32x8 optimization_barrier(I32x8 total) {
  __asm__ volatile("" : "+x"(total.v));
  return total;
}
struct ScalePair {
  __m256i v;
};
struct BlockScale {
  __m256i v;
};
struct PairMin {
  __m256i v;
};

LLMC_INLINE Codes load_codes(const uint8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
LLMC_INLINE void store_codes(uint8_t* p, Codes c) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), c.v);
}
LLMC_INLINE Codes low_nibbles(Codes c) {
  return {_mm256_and_si256(c.v, _mm256_set1_epi8(15))};
}
LLMC_INLINE Codes high_nibbles(Codes c) {
  return {_mm256_and_si256(_mm256_srli_epi16(c.v, 4), _mm256_set1_epi8(15))};
}
template <int kUpper>
LLMC_INLINE Codes with_upper(Codes low, Codes upper) {
  // The shifts are 16-bit shifts, so bits from the adjacent byte are masked.
  constexpr int kShift = 4 - 2 * kUpper;
  const __m256i moved = kShift > 0   ? _mm256_slli_epi16(upper.v, kShift > 0 ? kShift : 0)
                        : kShift < 0 ? _mm256_srli_epi16(upper.v, kShift < 0 ? -kShift : 0)
                                     : upper.v;
  return {_mm256_or_si256(low.v, _mm256_and_si256(moved, _mm256_set1_epi8(0x30)))};
}
template <int kPair>
LLMC_INLINE Codes with_lower(Codes packed, Codes lower) {
  const __m256i moved =
      kPair % 2 == 0 ? _mm256_slli_epi16(packed.v, 2) : _mm256_srli_epi16(packed.v, 2);
  const __m256i two = kPair == 0 ? lower.v : _mm256_srli_epi16(lower.v, 2 * kPair);
  return {_mm256_or_si256(_mm256_and_si256(moved, _mm256_set1_epi8(0x3c)),
                          _mm256_and_si256(two, _mm256_set1_epi8(3)))};
}
template <int kZeroPoint>
LLMC_INLINE Codes centred(Codes c) {
  return {_mm256_sub_epi8(c.v, _mm256_set1_epi8(kZeroPoint))};
}
LLMC_INLINE Activation4 load_activation(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return {_mm256_set1_epi32(four)};
}
LLMC_INLINE Activation4 load_activation(const int8_t* p, size_t offset) {
  return load_activation(p + offset);
}
LLMC_INLINE BlockSum mul_u4(Codes c, Activation4 a) {
  return {_mm256_maddubs_epi16(c.v, a.v)};
}
LLMC_INLINE BlockSum mac_u4(BlockSum sum, Codes c, Activation4 a) {
  return optimization_barrier(BlockSum{_mm256_add_epi16(sum.v, _mm256_maddubs_epi16(c.v, a.v))});
}
LLMC_INLINE ScalePair load_scale_pair(const uint8_t* p) {
  // Copies each byte to both 16-bit halves of its row's lane.
  const __m256i spread =
      _mm256_setr_epi8(0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1,  //
                       4, -1, 4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7, -1);
  int64_t eight;
  __builtin_memcpy(&eight, p, sizeof(eight));
  return {_mm256_shuffle_epi8(_mm256_set1_epi64x(eight), spread)};
}
LLMC_INLINE BlockScale even_scale(ScalePair p) {
  return {_mm256_and_si256(p.v, _mm256_set1_epi8(15))};
}
LLMC_INLINE BlockScale odd_scale(ScalePair p) {
  return {_mm256_srli_epi16(p.v, 4)};
}
LLMC_INLINE I32x8 add_scaled(I32x8 total, BlockSum sum, BlockScale scale) {
  return optimization_barrier(I32x8{_mm256_add_epi32(total.v, _mm256_madd_epi16(sum.v, scale.v))});
}
LLMC_INLINE I32x8 row_sums(BlockSum sum) {
  return {_mm256_madd_epi16(sum.v, _mm256_set1_epi16(1))};
}
LLMC_INLINE PairMin load_min_pair(const uint8_t* p) {
  return {_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
LLMC_INLINE PairMin load_min_single(const uint8_t* p) {
  return {load_u8(p).v};
}
LLMC_INLINE I32x8 add_mins(I32x8 total, PairMin mins, const int16_t* sums) {
  int32_t pair;
  __builtin_memcpy(&pair, sums, sizeof(pair));
  return {_mm256_add_epi32(total.v, _mm256_madd_epi16(mins.v, _mm256_set1_epi32(pair)))};
}
#ifndef LLMC_EXTENDS_AVX2
LLMC_INLINE I32x8 dot_i8(I32x8 total, Codes c, Activation4 a) {
  // vpmaddubsw needs one unsigned factor: |code| * (activation with the code's sign). A pair stays
  // below 2^15: 2 * 127 * 128 = 32 512.
  const __m256i magnitude = _mm256_abs_epi8(c.v);
  const __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(a.v, c.v));
  return {_mm256_add_epi32(total.v, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))};
}
LLMC_INLINE I32x8 dot_u6(I32x8 total, Codes c, Activation4 a, Codes d, Activation4 b) {
  // Two pairs stay below 2^15: 4 * 63 * 127 = 32 004.
  const __m256i sum =
      _mm256_add_epi16(_mm256_maddubs_epi16(c.v, a.v), _mm256_maddubs_epi16(d.v, b.v));
  return {_mm256_add_epi32(total.v, _mm256_madd_epi16(sum, _mm256_set1_epi16(1)))};
}
#endif
LLMC_INLINE void store_i8(int8_t* p, I32x8 a, I32x8 b, I32x8 c, I32x8 d) {
  const __m256i ab = _mm256_packs_epi32(a.v, b.v);
  const __m256i cd = _mm256_packs_epi32(c.v, d.v);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), order);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), bytes);
}

LLMC_INLINE void prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}
LLMC_INLINE void prefetch_stream(const void* p) {
  prefetch(p);
}
LLMC_INLINE void prefetch_tile(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
}

}  // namespace LLMC_ISA
}  // namespace llmc

#pragma once

#include <stddef.h>
#include <stdint.h>

#include "llmc/half.h"
#include "llmc/target.h"
#include "llmc/tiles/generic.h"

/// The operations of simd/vec.h with the portable vectors of clang and g++, without intrinsics or a
/// specific instruction set. This header is also the reference for the result of each operation.
namespace llmc {
inline namespace LLMC_ISA {
namespace portable {

using F32 = float __attribute__((vector_size(32)));
using F64 = double __attribute__((vector_size(64)));
using I32 = int32_t __attribute__((vector_size(32)));
using I64 = int64_t __attribute__((vector_size(64)));
using U8x8 = uint8_t __attribute__((vector_size(8)));
using I8x8 = int8_t __attribute__((vector_size(8)));
using U8x32 = uint8_t __attribute__((vector_size(32)));
using I8x32 = int8_t __attribute__((vector_size(32)));
using I16x8 = int16_t __attribute__((vector_size(16)));
using U16x8 = uint16_t __attribute__((vector_size(16)));
using I16x32 = int16_t __attribute__((vector_size(64)));

inline constexpr I32 kLane = {0, 1, 2, 3, 4, 5, 6, 7};

// Results are returned by reference: returning a vector would have a different ABI with and without
// AVX.
LLMC_INLINE void sqrt_lanes(const F32& a, F32& result) {
#if defined(__clang__)
  result = __builtin_elementwise_sqrt(a);
#else
  for (size_t i = 0; i < 8; ++i) result[i] = __builtin_sqrtf(a[i]);
#endif
}

/// Computes c = a * b + c with one rounding, for processors that have such an instruction.
LLMC_INLINE void native_fma_lanes(const F32& a, const F32& b, F32& c) {
#if defined(__clang__)
  c = __builtin_elementwise_fma(a, b, c);
#else
  for (size_t i = 0; i < 8; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
#endif
}

}  // namespace portable

inline constexpr size_t kActivationTokens = 1, kActivationStep = 32, kActivationBlocks = 1;
inline constexpr bool kExactPanels = false, kSquareTiles = false;
inline constexpr bool kSignedCodes = false, kByteCodes = false, kVnniCodes = false;
inline constexpr size_t kVnniByteTokens = 0, kFewTokens = 0, kFewLimit = 0;
inline constexpr size_t kAttentionSums = 12, kAttentionRowTile = 6;
inline constexpr bool kPrefetches = false;  // small code matters more than speed

struct F32x8 {
  portable::F32 v;
};
struct I32x8 {
  portable::I32 v;
};
struct Mask8 {
  portable::I32 v;
};

LLMC_INLINE F32x8 splat(float x) {
  return {portable::F32{x, x, x, x, x, x, x, x}};  // not F32{} + x, which gives +0 for -0
}
LLMC_INLINE F32x8 splat_at(const float* p) {
  return splat(*p);
}
LLMC_INLINE F32x8 splat_lane(F32x8 a, size_t lane) {
  return splat(a.v[lane]);
}
LLMC_INLINE F32x8 zero_f32() {
  return {portable::F32{}};
}
LLMC_INLINE F32x8 load(const float* p) {
  F32x8 result;
  __builtin_memcpy(&result.v, p, sizeof(result.v));
  return result;
}
LLMC_INLINE void store(float* p, F32x8 a) {
  __builtin_memcpy(p, &a.v, sizeof(a.v));
}
LLMC_INLINE F32x8 load_partial(const float* p, size_t n) {
  float lane[8] = {};
  for (size_t i = 0; i < n; ++i) lane[i] = p[i];
  return load(lane);
}
LLMC_INLINE void store_partial(float* p, F32x8 a, size_t n) {
  for (size_t i = 0; i < n; ++i) p[i] = a.v[i];
}
LLMC_INLINE F32x8 operator+(F32x8 a, F32x8 b) {
  return {a.v + b.v};
}
LLMC_INLINE F32x8 operator-(F32x8 a, F32x8 b) {
  return {a.v - b.v};
}
LLMC_INLINE F32x8 operator*(F32x8 a, F32x8 b) {
  return {a.v * b.v};
}
LLMC_INLINE F32x8 operator/(F32x8 a, F32x8 b) {
  return {a.v / b.v};
}

namespace portable {

/// Computes c = a * b + c, correctly rounded. Targets that may lack an FMA instruction compute it
/// as follows. The product of two floats is exact in double. The sum is rounded to odd (Boldo &
/// Melquiond 2008): TwoSum gives the error, and an inexact sum with an even last bit moves one unit
/// towards the exact value. The rounding to float is then correct, because a double has more than
/// 24 + 2 bits even for subnormal floats. Not inlined, because that would make a model's code five
/// times as large.
LLMC_NOINLINE inline void fma_lanes(const F32& a, const F32& b, F32& c) {
#if defined(__aarch64__) || defined(__loongarch64)
  native_fma_lanes(a, b, c);
#else
  const F64 product = __builtin_convertvector(a, F64) * __builtin_convertvector(b, F64);
  const F64 addend = __builtin_convertvector(c, F64);
  const F64 sum = product + addend;
  const F64 back = sum - product;
  const F64 error = (product - (sum - back)) + (addend - back);
  I64 sum_bits = (I64)sum;
  const I64 inexact = (error < 0.0) | (error > 0.0);  // false for NaN, so infinities are kept
  const I64 step = (((I64)error ^ sum_bits) >> 63) | 1;
  const I64 even = (sum_bits & 1) - 1;
  sum_bits += inexact & even & step;
  c = __builtin_convertvector((F64)sum_bits, F32);
#endif
}

}  // namespace portable

LLMC_INLINE F32x8 fma(F32x8 a, F32x8 b, F32x8 c) {
  portable::fma_lanes(a.v, b.v, c.v);
  return c;
}
LLMC_INLINE F32x8 sqrt(F32x8 a) {
  F32x8 result;
  portable::sqrt_lanes(a.v, result.v);
  return result;
}
LLMC_INLINE F32x8 max(F32x8 a, F32x8 b) {
  return {a.v > b.v ? a.v : b.v};
}
LLMC_INLINE F32x8 min(F32x8 a, F32x8 b) {
  return {a.v < b.v ? a.v : b.v};
}
LLMC_INLINE Mask8 less(F32x8 a, F32x8 b) {
  return {a.v < b.v};
}
LLMC_INLINE Mask8 lanes_below(size_t n) {
  return {portable::kLane < static_cast<int32_t>(n)};
}
LLMC_INLINE F32x8 select(Mask8 m, F32x8 a, F32x8 b) {
  return {m.v ? a.v : b.v};
}
template <int d>
LLMC_INLINE F32x8 butterfly(F32x8 a) {
  const portable::F32 first = d == 4   ? __builtin_shufflevector(a.v, a.v, 0, 1, 2, 3, 0, 1, 2, 3)
                              : d == 2 ? __builtin_shufflevector(a.v, a.v, 0, 1, 0, 1, 4, 5, 4, 5)
                                       : __builtin_shufflevector(a.v, a.v, 0, 0, 2, 2, 4, 4, 6, 6);
  const portable::F32 second = d == 4   ? __builtin_shufflevector(a.v, a.v, 4, 5, 6, 7, 4, 5, 6, 7)
                               : d == 2 ? __builtin_shufflevector(a.v, a.v, 2, 3, 2, 3, 6, 7, 6, 7)
                                        : __builtin_shufflevector(a.v, a.v, 1, 1, 3, 3, 5, 5, 7, 7);
  return {(portable::kLane & d) == 0 ? first + second : first - second};
}

LLMC_INLINE I32x8 splat_i32(int32_t x) {
  return {portable::I32{x, x, x, x, x, x, x, x}};
}
LLMC_INLINE I32x8 zero_i32() {
  return {portable::I32{}};
}
LLMC_INLINE I32x8 load_i32(const int32_t* p) {
  I32x8 result;
  __builtin_memcpy(&result.v, p, sizeof(result.v));
  return result;
}
LLMC_INLINE void store_i32(int32_t* p, I32x8 a) {
  __builtin_memcpy(p, &a.v, sizeof(a.v));
}
// These operators use unsigned arithmetic, so that they wrap.
LLMC_INLINE I32x8 operator+(I32x8 a, I32x8 b) {
  using U32 = uint32_t __attribute__((vector_size(32)));
  return {(portable::I32)((U32)a.v + (U32)b.v)};
}
LLMC_INLINE I32x8 operator-(I32x8 a, I32x8 b) {
  using U32 = uint32_t __attribute__((vector_size(32)));
  return {(portable::I32)((U32)a.v - (U32)b.v)};
}
LLMC_INLINE I32x8 operator&(I32x8 a, I32x8 b) {
  return {a.v & b.v};
}
LLMC_INLINE I32x8 operator|(I32x8 a, I32x8 b) {
  return {a.v | b.v};
}
template <int n>
LLMC_INLINE I32x8 shift_left(I32x8 a) {
  using U32 = uint32_t __attribute__((vector_size(32)));
  return {(portable::I32)((U32)a.v << static_cast<uint32_t>(n))};
}
template <int n>
LLMC_INLINE I32x8 shift_right_arithmetic(I32x8 a) {
  return {a.v >> n};
}
LLMC_INLINE I32x8 max_i32(I32x8 a, I32x8 b) {
  return {a.v > b.v ? a.v : b.v};
}
LLMC_INLINE int32_t reduce_add_i32(I32x8 a) {
  int32_t result = 0;
  for (int i = 0; i < 8; ++i) result += a.v[i];
  return result;
}
LLMC_INLINE F32x8 to_f32(I32x8 a) {
  return {__builtin_convertvector(a.v, portable::F32)};
}
LLMC_INLINE F32x8 upper_to_f32(I32x8 a) {
  return to_f32(shift_right_arithmetic<16>(a));
}
LLMC_INLINE I32x8 bits(F32x8 a) {
  return {(portable::I32)a.v};
}
LLMC_INLINE F32x8 from_bits(I32x8 a) {
  return {(portable::F32)a.v};
}
LLMC_INLINE I32x8 load_u8(const uint8_t* p) {
  portable::U8x8 eight;
  __builtin_memcpy(&eight, p, sizeof(eight));
  return {__builtin_convertvector(eight, portable::I32)};
}

LLMC_INLINE F32x8 load_f16(const uint8_t* p) {
  using namespace portable;
  U16x8 half;
  __builtin_memcpy(&half, p, sizeof(half));
  const I32 wide = __builtin_convertvector(half, I32);
  const I32 magnitude = wide & 0x7fff;
  // After the shift, the exponent is too small by 112. The product is exact, also of subnormals.
  const I32 finite = (I32)((F32)(magnitude << 13) * 0x1p112f);
  const I32 quiet = magnitude > 0x7c00 ? I32{} + 0x00400000 : I32{};
  const I32 special = (magnitude << 13) | 0x7f800000 | quiet;
  const I32 result = magnitude >= 0x7c00 ? special : finite;
  return {(F32)(result | ((wide & 0x8000) << 16))};
}

LLMC_INLINE void store_f16(uint8_t* p, F32x8 a) {
  uint16_t half[8];
  for (int i = 0; i < 8; ++i) half[i] = f32_to_f16(a.v[i]);
  __builtin_memcpy(p, half, sizeof(half));
}

LLMC_INLINE F32x8 load_bf16(const uint8_t* p) {
  portable::U16x8 half;
  __builtin_memcpy(&half, p, sizeof(half));
  return {(portable::F32)(__builtin_convertvector(half, portable::I32) << 16)};
}
LLMC_INLINE I32x8 load_i8(const uint8_t* p) {
  portable::I8x8 eight;
  __builtin_memcpy(&eight, p, sizeof(eight));
  return {__builtin_convertvector(eight, portable::I32)};
}
LLMC_INLINE F32x8 load_e4m3(const uint8_t* p) {
  using namespace portable;
  const I32 wide = load_i8(p).v;
  // After the shift, the exponent is too small by 112. The product is exact, also of subnormals.
  const I32 value = (I32)((F32)((wide & 0x7f) << 20) * 0x1p112f);
  return {(F32)(value | (wide & static_cast<int32_t>(0x80000000u)))};
}

struct Codes {
  portable::U8x32 v;
};
struct Activation4 {
  portable::I16x8 v;  // the four values, twice
};
struct BlockSum {
  portable::I16x32 v;  // four lanes for each row; 8 * 15 * 128 = 15 360 fits
};
struct ScalePair {
  portable::I32 v;
};
struct BlockScale {
  portable::I32 v;
};
struct PairMin {
  portable::I32 even, odd;
};

namespace portable {

LLMC_INLINE BlockSum repeat(Activation4 a) {
  return {__builtin_shufflevector(a.v, a.v, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7,  //
                                  0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7)};
}
/// Adds the four lanes of each row.
LLMC_INLINE I32x8 row_sums(BlockSum a) {
  const I16x8 x0 = __builtin_shufflevector(a.v, a.v, 0, 4, 8, 12, 16, 20, 24, 28);
  const I16x8 x1 = __builtin_shufflevector(a.v, a.v, 1, 5, 9, 13, 17, 21, 25, 29);
  const I16x8 x2 = __builtin_shufflevector(a.v, a.v, 2, 6, 10, 14, 18, 22, 26, 30);
  const I16x8 x3 = __builtin_shufflevector(a.v, a.v, 3, 7, 11, 15, 19, 23, 27, 31);
  return {(__builtin_convertvector(x0, I32) + __builtin_convertvector(x1, I32)) +
          (__builtin_convertvector(x2, I32) + __builtin_convertvector(x3, I32))};
}

}  // namespace portable

LLMC_INLINE Codes load_codes(const uint8_t* p) {
  Codes result;
  __builtin_memcpy(&result.v, p, sizeof(result.v));
  return result;
}
LLMC_INLINE void store_codes(uint8_t* p, Codes c) {
  __builtin_memcpy(p, &c.v, sizeof(c.v));
}
LLMC_INLINE Codes low_nibbles(Codes c) {
  return {c.v & static_cast<uint8_t>(15)};
}
LLMC_INLINE Codes high_nibbles(Codes c) {
  return {c.v >> static_cast<uint8_t>(4)};
}
template <int kUpper>
LLMC_INLINE Codes with_upper(Codes low, Codes upper) {
  return {low.v | ((upper.v >> static_cast<uint8_t>(2 * kUpper)) & static_cast<uint8_t>(3))
                      << static_cast<uint8_t>(4)};
}
template <int kPair>
LLMC_INLINE Codes with_lower(Codes packed, Codes lower) {
  const Codes four = kPair % 2 == 0 ? low_nibbles(packed) : high_nibbles(packed);
  return {four.v << static_cast<uint8_t>(2) |
          ((lower.v >> static_cast<uint8_t>(2 * kPair)) & static_cast<uint8_t>(3))};
}
template <int kZeroPoint>
LLMC_INLINE Codes centred(Codes c) {
  return {c.v - static_cast<uint8_t>(kZeroPoint)};
}
LLMC_INLINE Activation4 load_activation(const int8_t* p) {
  return {portable::I16x8{p[0], p[1], p[2], p[3], p[0], p[1], p[2], p[3]}};
}
LLMC_INLINE Activation4 load_activation(const int8_t* p, size_t offset) {
  return load_activation(p + offset);
}
LLMC_INLINE BlockSum mul_u4(Codes c, Activation4 a) {
  return {__builtin_convertvector(c.v, portable::I16x32) * portable::repeat(a).v};
}
LLMC_INLINE BlockSum mac_u4(BlockSum sum, Codes c, Activation4 a) {
  return {sum.v + __builtin_convertvector(c.v, portable::I16x32) * portable::repeat(a).v};
}
LLMC_INLINE BlockSum optimization_barrier(BlockSum sum) {
  return sum;
}
LLMC_INLINE ScalePair load_scale_pair(const uint8_t* p) {
  return {load_u8(p).v};
}
LLMC_INLINE BlockScale even_scale(ScalePair p) {
  return {p.v & 15};
}
LLMC_INLINE BlockScale odd_scale(ScalePair p) {
  return {p.v >> 4};
}
LLMC_INLINE I32x8 add_scaled(I32x8 total, BlockSum sum, BlockScale scale) {
  return {total.v + portable::row_sums(sum).v * scale.v};
}
LLMC_INLINE I32x8 row_sums(BlockSum sum) {
  return portable::row_sums(sum);
}
LLMC_INLINE PairMin load_min_pair(const uint8_t* p) {
  portable::I32 even, odd;
  for (int row = 0; row < 8; ++row) {
    even[row] = p[2 * row];
    odd[row] = p[2 * row + 1];
  }
  return {even, odd};
}
LLMC_INLINE PairMin load_min_single(const uint8_t* p) {
  return {load_u8(p).v, portable::I32{}};
}
LLMC_INLINE I32x8 add_mins(I32x8 total, PairMin mins, const int16_t* sums) {
  return {total.v + mins.even * static_cast<int32_t>(sums[0]) +
          mins.odd * static_cast<int32_t>(sums[1])};
}
LLMC_INLINE I32x8 dot_i8(I32x8 total, Codes c, Activation4 a) {
  using namespace portable;
  // One product fits in 16 bits, but a sum of four may not.
  const BlockSum product = {__builtin_convertvector((I8x32)c.v, I16x32) * repeat(a).v};
  return {total.v + portable::row_sums(product).v};
}
LLMC_INLINE I32x8 dot_u6(I32x8 total, Codes c, Activation4 a, Codes d, Activation4 b) {
  // The sum of two products fits in 16 bits.
  return {total.v + portable::row_sums(mac_u4(mul_u4(c, a), d, b)).v};
}
LLMC_INLINE void store_i8(int8_t* p, I32x8 a, I32x8 b, I32x8 c, I32x8 d) {
  const portable::I32 parts[4] = {a.v, b.v, c.v, d.v};
  for (int part = 0; part < 4; ++part) {
    for (int i = 0; i < 8; ++i) {
      const int32_t x = parts[part][i];
      p[part * 8 + i] = static_cast<int8_t>(x < -128 ? -128 : (x > 127 ? 127 : x));
    }
  }
}

LLMC_INLINE void prefetch(const void* p) {
  __builtin_prefetch(p, 0, 3);
}
LLMC_INLINE void prefetch_stream(const void* p) {
  prefetch(p);
}
LLMC_INLINE void prefetch_tile(const void* p) {
  prefetch(p);
}

}  // namespace LLMC_ISA
}  // namespace llmc

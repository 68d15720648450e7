#pragma once

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#include "llmc/target.h"
#include "llmc/tiles/neon.h"

/// The operations of simd/vec.h for Armv8.2 with dot products: 8 lanes are two registers. Flush to
/// zero is off (the default of FPCR); fmla rounds once.
namespace llmc {
inline namespace LLMC_ISA {

/// Tiles (simd/vec.h): 8 tokens have 16 sums in the 32 registers. Activations have the layout that
/// sdot by lane (4 elements of 8 tokens: two registers) or usmmla (8 elements of two tokens: one
/// register) reads.
inline constexpr size_t kTokenTile = 8, kByteTile = 8, kPanelTile = 1;
inline constexpr bool kExactPanels = true, kSignedCodes = true, kByteCodes = false,
                      kVnniCodes = false;
inline constexpr size_t kVnniByteTokens = 0, kFewTokens = 0, kFewLimit = 0;
inline constexpr size_t kAttentionSums = 12, kAttentionRowTile = 6;
inline constexpr bool kPrefetches = false;
#ifdef LLMC_I8MM
inline constexpr bool kSquareTiles = true;
#else
inline constexpr bool kSquareTiles = false;
#endif
#if LLMC_OPT_LEVEL == 2
inline constexpr size_t kActivationTokens = 1, kActivationStep = 32, kActivationBlocks = 1;
#else
inline constexpr size_t kActivationTokens = 8, kActivationStep = kSquareTiles ? 8 : 4;
inline constexpr size_t kActivationBlocks = 1;
#endif

/// Lanes 0..3 and 4..7.
struct F32x8 {
  float32x4_t low, high;
};
struct I32x8 {
  int32x4_t low, high;
};
struct Mask8 {
  uint32x4_t low, high;
};

LLMC_INLINE F32x8 splat(float x) {
  const float32x4_t v = vdupq_n_f32(x);
  return {v, v};
}
/// Returns *p in all lanes. The compiler makes it a lane operand of fmla, because the lane is
/// constant after unrolling.
LLMC_INLINE F32x8 splat_at(const float* p) {
  return splat(*p);
}
LLMC_INLINE F32x8 splat_lane(F32x8 a, size_t lane) {
  return splat(lane < 4 ? a.low[lane % 4] : a.high[lane % 4]);
}
LLMC_INLINE F32x8 zero_f32() {
  return splat(0.0f);
}
LLMC_INLINE F32x8 load(const float* p) {
  return {vld1q_f32(p), vld1q_f32(p + 4)};
}
LLMC_INLINE void store(float* p, F32x8 a) {
  vst1q_f32(p, a.low);
  vst1q_f32(p + 4, a.high);
}
LLMC_INLINE F32x8 load_f16(const uint8_t* p) {
  const float16x8_t half = vreinterpretq_f16_u8(vld1q_u8(p));
  return {vcvt_f32_f16(vget_low_f16(half)), vcvt_high_f32_f16(half)};
}
LLMC_INLINE void store_f16(uint8_t* p, F32x8 a) {
  vst1q_u8(p, vreinterpretq_u8_f16(vcvt_high_f16_f32(vcvt_f16_f32(a.low), a.high)));
}
LLMC_INLINE F32x8 load_bf16(const uint8_t* p) {
  const uint16x8_t half = vreinterpretq_u16_u8(vld1q_u8(p));
  return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(half), 16)),
          vreinterpretq_f32_u32(vshll_high_n_u16(half, 16))};
}
LLMC_INLINE F32x8 load_partial(const float* p, size_t n) {
  float lane[8] = {};
  for (size_t i = 0; i < n; ++i) lane[i] = p[i];
  return load(lane);
}
LLMC_INLINE void store_partial(float* p, F32x8 a, size_t n) {
  float lane[8];
  store(lane, a);
  for (size_t i = 0; i < n; ++i) p[i] = lane[i];
}
LLMC_INLINE F32x8 operator+(F32x8 a, F32x8 b) {
  return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)};
}
LLMC_INLINE F32x8 operator-(F32x8 a, F32x8 b) {
  return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)};
}
LLMC_INLINE F32x8 operator*(F32x8 a, F32x8 b) {
  return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
}
LLMC_INLINE F32x8 operator/(F32x8 a, F32x8 b) {
  return {vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)};
}
LLMC_INLINE F32x8 fma(F32x8 a, F32x8 b, F32x8 c) {
  return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
}
LLMC_INLINE F32x8 sqrt(F32x8 a) {
  return {vsqrtq_f32(a.low), vsqrtq_f32(a.high)};
}
template <int d>
LLMC_INLINE F32x8 butterfly(F32x8 a) {
  if constexpr (d == 4) return {vaddq_f32(a.low, a.high), vsubq_f32(a.low, a.high)};
  const uint32x4_t sign =
      d == 2 ? uint32x4_t{0, 0, 1u << 31, 1u << 31} : uint32x4_t{0, 1u << 31, 0, 1u << 31};
  const auto half = [&](float32x4_t v) LLMC_INLINE_LAMBDA {
    const float32x4_t other = d == 2 ? vextq_f32(v, v, 2) : vrev64q_f32(v);
    return vaddq_f32(other, vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(v), sign)));
  };
  return {half(a.low), half(a.high)};
}
LLMC_INLINE Mask8 less(F32x8 a, F32x8 b) {
  return {vcltq_f32(a.low, b.low), vcltq_f32(a.high, b.high)};
}
LLMC_INLINE Mask8 lanes_below(size_t n) {
  const uint32x4_t lane = {0, 1, 2, 3}, limit = vdupq_n_u32(static_cast<uint32_t>(n));
  return {vcltq_u32(lane, limit), vcltq_u32(vaddq_u32(lane, vdupq_n_u32(4)), limit)};
}
LLMC_INLINE F32x8 select(Mask8 m, F32x8 a, F32x8 b) {
  return {vbslq_f32(m.low, a.low, b.low), vbslq_f32(m.high, a.high, b.high)};
}
// Not implemented with fmax and fmin, which order zeros and propagate NaN.
LLMC_INLINE F32x8 max(F32x8 a, F32x8 b) {
  return select(less(b, a), a, b);
}
LLMC_INLINE F32x8 min(F32x8 a, F32x8 b) {
  return select(less(a, b), a, b);
}

LLMC_INLINE I32x8 splat_i32(int32_t x) {
  const int32x4_t v = vdupq_n_s32(x);
  return {v, v};
}
LLMC_INLINE I32x8 zero_i32() {
  return splat_i32(0);
}
LLMC_INLINE I32x8 load_i32(const int32_t* p) {
  return {vld1q_s32(p), vld1q_s32(p + 4)};
}
LLMC_INLINE void store_i32(int32_t* p, I32x8 a) {
  vst1q_s32(p, a.low);
  vst1q_s32(p + 4, a.high);
}
LLMC_INLINE I32x8 operator+(I32x8 a, I32x8 b) {
  return {vaddq_s32(a.low, b.low), vaddq_s32(a.high, b.high)};
}
LLMC_INLINE I32x8 operator-(I32x8 a, I32x8 b) {
  return {vsubq_s32(a.low, b.low), vsubq_s32(a.high, b.high)};
}
LLMC_INLINE I32x8 operator&(I32x8 a, I32x8 b) {
  return {vandq_s32(a.low, b.low), vandq_s32(a.high, b.high)};
}
LLMC_INLINE I32x8 operator|(I32x8 a, I32x8 b) {
  return {vorrq_s32(a.low, b.low), vorrq_s32(a.high, b.high)};
}
template <int n>
LLMC_INLINE I32x8 shift_left(I32x8 a) {
  return {vshlq_n_s32(a.low, n), vshlq_n_s32(a.high, n)};
}
template <int n>
LLMC_INLINE I32x8 shift_right_arithmetic(I32x8 a) {
  return {vshrq_n_s32(a.low, n), vshrq_n_s32(a.high, n)};
}
LLMC_INLINE I32x8 max_i32(I32x8 a, I32x8 b) {
  return {vmaxq_s32(a.low, b.low), vmaxq_s32(a.high, b.high)};
}
LLMC_INLINE int32_t reduce_add_i32(I32x8 a) {
  return vaddvq_s32(vaddq_s32(a.low, a.high));
}
LLMC_INLINE F32x8 to_f32(I32x8 a) {
  return {vcvtq_f32_s32(a.low), vcvtq_f32_s32(a.high)};
}
LLMC_INLINE F32x8 upper_to_f32(I32x8 a) {
  const I32x8 upper = a & splat_i32(-65536);
  return {vcvtq_n_f32_s32(upper.low, 16), vcvtq_n_f32_s32(upper.high, 16)};
}
LLMC_INLINE I32x8 bits(F32x8 a) {
  return {vreinterpretq_s32_f32(a.low), vreinterpretq_s32_f32(a.high)};
}
LLMC_INLINE F32x8 from_bits(I32x8 a) {
  return {vreinterpretq_f32_s32(a.low), vreinterpretq_f32_s32(a.high)};
}
/// Widens the bytes with one table look-up for each half. An index past the end of the table
/// gives 0.
LLMC_INLINE I32x8 widen_u8(uint8x8_t v) {
  const uint8x16_t low = {0, 16, 16, 16, 1, 16, 16, 16, 2, 16, 16, 16, 3, 16, 16, 16};
  const uint8x16_t high = {4, 16, 16, 16, 5, 16, 16, 16, 6, 16, 16, 16, 7, 16, 16, 16};
  const uint8x16_t bytes = vcombine_u8(v, vdup_n_u8(0));
  return {vreinterpretq_s32_u8(vqtbl1q_u8(bytes, low)),
          vreinterpretq_s32_u8(vqtbl1q_u8(bytes, high))};
}
LLMC_INLINE I32x8 load_u8(const uint8_t* p) {
  return widen_u8(vld1_u8(p));
}
LLMC_INLINE I32x8 load_i8(const uint8_t* p) {
  const int16x8_t wide = vmovl_s8(vreinterpret_s8_u8(vld1_u8(p)));
  return {vmovl_s16(vget_low_s16(wide)), vmovl_high_s16(wide)};
}
/// Converts each byte to an f16: the sign, a zero bit, the other seven bits, then zeros.
LLMC_INLINE F32x8 load_e4m3(const uint8_t* p) {
  const int16x8_t wide = vshll_n_s8(vreinterpret_s8_u8(vld1_u8(p)), 7);
  const uint16x8_t half = vandq_u16(vreinterpretq_u16_s16(wide), vdupq_n_u16(0xbfff));
  const float16x8_t value = vreinterpretq_f16_u16(half);
  return {vcvt_f32_f16(vget_low_f16(value)), vcvt_high_f32_f16(value)};
}

/// Rows 0..3 and 4..7, four bytes each.
struct Codes {
  uint8x16_t low, high;
};
struct Activation4 {
  int8x16_t v;  // the four values four times
};
/// Complete sums, because a dot product adds four products to a 32-bit lane.
struct BlockSum {
  I32x8 v;
};
struct ScalePair {
  uint8x8_t v;
};
struct BlockScale {
  I32x8 v;
};
struct PairMin {
  int16x8_t even, odd;
};

LLMC_INLINE Codes load_codes(const uint8_t* p) {
  return {vld1q_u8(p), vld1q_u8(p + 16)};
}
LLMC_INLINE void store_codes(uint8_t* p, Codes c) {
  vst1q_u8(p, c.low);
  vst1q_u8(p + 16, c.high);
}
LLMC_INLINE Codes low_nibbles(Codes c) {
  const uint8x16_t mask = vdupq_n_u8(15);
  return {vandq_u8(c.low, mask), vandq_u8(c.high, mask)};
}
LLMC_INLINE Codes high_nibbles(Codes c) {
  return {vshrq_n_u8(c.low, 4), vshrq_n_u8(c.high, 4)};
}
template <int kUpper>
LLMC_INLINE Codes with_upper(Codes low, Codes upper) {
  const auto of = [](uint8x16_t from, uint8x16_t bits) LLMC_INLINE_LAMBDA {
    constexpr int kShift = 4 - 2 * kUpper;
    if constexpr (kShift > 0) bits = vshlq_n_u8(bits, kShift);
    if constexpr (kShift < 0) bits = vshrq_n_u8(bits, -kShift);
    return vbslq_u8(vdupq_n_u8(0x30), bits, from);
  };
  return {of(low.low, upper.low), of(low.high, upper.high)};
}
template <int kPair>
LLMC_INLINE Codes with_lower(Codes packed, Codes lower) {
  const auto of = [](uint8x16_t four, uint8x16_t two) LLMC_INLINE_LAMBDA {
    four = kPair % 2 == 0 ? vandq_u8(four, vdupq_n_u8(15)) : vshrq_n_u8(four, 4);
    if constexpr (kPair > 0) two = vshrq_n_u8(two, 2 * kPair);
    return vsliq_n_u8(two, four, 2);  // keeps the lower two bits of `two`
  };
  return {of(packed.low, lower.low), of(packed.high, lower.high)};
}
template <int kZeroPoint>
LLMC_INLINE Codes centred(Codes c) {
  const uint8x16_t middle = vdupq_n_u8(kZeroPoint);
  return {vsubq_u8(c.low, middle), vsubq_u8(c.high, middle)};
}
LLMC_INLINE Activation4 load_activation(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return {vreinterpretq_s8_s32(vdupq_n_s32(four))};
}
/// Loads the activations at p + offset as a lane of a register that adjacent activations share;
/// sdot can read such a lane. `offset` is constant after unrolling.
LLMC_INLINE Activation4 load_activation(const int8_t* p, size_t offset) {
  const int32x4_t sixteen = vreinterpretq_s32_s8(vld1q_s8(p + offset / 16 * 16));
  return {vreinterpretq_s8_s32(vdupq_n_s32(sixteen[offset % 16 / 4]))};
}
LLMC_INLINE I32x8 dot_i8(I32x8 total, Codes c, Activation4 a) {
  return {vdotq_s32(total.low, vreinterpretq_s8_u8(c.low), a.v),
          vdotq_s32(total.high, vreinterpretq_s8_u8(c.high), a.v)};
}
LLMC_INLINE I32x8 dot_u6(I32x8 total, Codes c, Activation4 a, Codes d, Activation4 b) {
  return dot_i8(dot_i8(total, c, a), d, b);
}
LLMC_INLINE BlockSum mul_u4(Codes c, Activation4 a) {
  return {dot_i8(zero_i32(), c, a)};
}
LLMC_INLINE BlockSum mac_u4(BlockSum sum, Codes c, Activation4 a) {
  return {dot_i8(sum.v, c, a)};
}
LLMC_INLINE BlockSum optimization_barrier(BlockSum sum) {
  return sum;
}
LLMC_INLINE ScalePair load_scale_pair(const uint8_t* p) {
  return {vld1_u8(p)};
}
LLMC_INLINE BlockScale even_scale(ScalePair p) {
  return {widen_u8(vand_u8(p.v, vdup_n_u8(15)))};
}
LLMC_INLINE BlockScale odd_scale(ScalePair p) {
  return {widen_u8(vshr_n_u8(p.v, 4))};
}
LLMC_INLINE I32x8 add_scaled(I32x8 total, BlockSum sum, BlockScale scale) {
  return {vmlaq_s32(total.low, sum.v.low, scale.v.low),
          vmlaq_s32(total.high, sum.v.high, scale.v.high)};
}
LLMC_INLINE I32x8 row_sums(BlockSum sum) {
  return sum.v;
}
LLMC_INLINE PairMin load_min_pair(const uint8_t* p) {
  const uint8x8x2_t pair = vld2_u8(p);
  return {vreinterpretq_s16_u16(vmovl_u8(pair.val[0])),
          vreinterpretq_s16_u16(vmovl_u8(pair.val[1]))};
}
LLMC_INLINE PairMin load_min_single(const uint8_t* p) {
  return {vreinterpretq_s16_u16(vmovl_u8(vld1_u8(p))), vdupq_n_s16(0)};
}
LLMC_INLINE I32x8 add_mins(I32x8 total, PairMin mins, const int16_t* sums) {
  int32_t pair;
  __builtin_memcpy(&pair, sums, sizeof(pair));
  const int16x4_t sum = vreinterpret_s16_s32(vdup_n_s32(pair));
  total.low = vmlal_lane_s16(total.low, vget_low_s16(mins.even), sum, 0);
  total.high = vmlal_high_lane_s16(total.high, mins.even, sum, 0);
  total.low = vmlal_lane_s16(total.low, vget_low_s16(mins.odd), sum, 1);
  total.high = vmlal_high_lane_s16(total.high, mins.odd, sum, 1);
  return total;
}
LLMC_INLINE void store_i8(int8_t* p, I32x8 a, I32x8 b, I32x8 c, I32x8 d) {
  const auto narrow = [](I32x8 v) { return vqmovn_high_s32(vqmovn_s32(v.low), v.high); };
  vst1q_s8(p, vqmovn_high_s16(vqmovn_s16(narrow(a)), narrow(b)));
  vst1q_s8(p + 16, vqmovn_high_s16(vqmovn_s16(narrow(c)), narrow(d)));
}

LLMC_INLINE void prefetch(const void* p) {
  __builtin_prefetch(p, 0, 3);
}
/// These two do nothing, because the hardware prefetches a few ascending streams.
LLMC_INLINE void prefetch_stream(const void*) {}
LLMC_INLINE void prefetch_tile(const void*) {}

}  // namespace LLMC_ISA
}  // namespace llmc

#pragma once

#include <lasxintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "llmc/target.h"
#include "llmc/tiles/lasx.h"

/// The operations of simd/vec.h for LoongArch's LASX: 8 lanes are one register. There is no
/// flush-to-zero mode; xvfmadd.s rounds once.
namespace llmc {
inline namespace LLMC_ISA {

inline constexpr size_t kActivationTokens = 1, kActivationStep = 32, kActivationBlocks = 1;
inline constexpr bool kExactPanels = false, kSquareTiles = false;
inline constexpr bool kSignedCodes = true, kByteCodes = false, kVnniCodes = false;
inline constexpr size_t kVnniByteTokens = 0;
inline constexpr size_t kFewTokens = 4, kFewLimit = 4;  // other tiles are faster with more tokens
inline constexpr size_t kAttentionSums = 24, kAttentionRowTile = 6;
inline constexpr bool kPrefetches = false;

struct F32x8 {
  __m256 v;
};
struct I32x8 {
  __m256i v;
};
struct Mask8 {
  __m256i v;
};

namespace loong {

/// Loads the 32 or 64 bits at p into every lane. Without the intrinsic, the compiler would load
/// them to a scalar register and copy it.
LLMC_INLINE __m256i broadcast_w(const void* p) {
  return __lasx_xvldrepl_w(const_cast<void*>(p), 0);
}
LLMC_INLINE __m256i broadcast_d(const void* p) {
  return __lasx_xvldrepl_d(const_cast<void*>(p), 0);
}
/// Loads 32 bits at p + offset into every lane. `offset` must be a multiple of 4 below 2048; it is
/// encoded in the instruction if it is constant after unrolling. The intrinsic would need a
/// constant before unrolling, and an "m" operand of asm might have an offset that the instruction
/// cannot encode.
LLMC_INLINE __m256i broadcast_w(const int8_t* p, size_t offset) {
#ifdef __OPTIMIZE__
  if (__builtin_constant_p(offset)) {
    struct Word {
      int8_t bytes[4];
    };
    __m256i v;
    asm("xvldrepl.w %u0, %1, %2"
        : "=f"(v)
        : "r"(p), "i"(offset), "m"(*reinterpret_cast<const Word*>(p + offset)));
    return v;
  }
#endif
  return broadcast_w(p + offset);
}
/// Loads the 16 bytes at p into both halves of the register.
LLMC_INLINE __m256i broadcast_q(const void* p) {
  using Two = int64_t __attribute__((vector_size(16)));
  Two two;
  __builtin_memcpy(&two, p, sizeof(two));
  return (__m256i)__builtin_shufflevector(two, two, 0, 1, 0, 1);
}
LLMC_INLINE __m256i select(__m256i mask, __m256i a, __m256i b) {
  return __lasx_xvbitsel_v(b, a, mask);
}
LLMC_INLINE __m256i load(const void* p) {
  __m256i v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
/// Returns total + the sum of the two products of 16-bit elements in each 32-bit lane.
LLMC_INLINE __m256i add_pairs(__m256i total, __m256i a, __m256i b) {
  return __lasx_xvmaddwod_w_h(__lasx_xvmaddwev_w_h(total, a, b), a, b);
}

}  // namespace loong

LLMC_INLINE F32x8 splat(float x) {
  using Lanes = float __attribute__((vector_size(32)));
  return {(__m256)(Lanes{x, x, x, x, x, x, x, x})};
}
LLMC_INLINE F32x8 splat_at(const float* p) {
  return {(__m256)loong::broadcast_w(p)};
}
LLMC_INLINE F32x8 splat_lane(F32x8 a, size_t lane) {
  // A half is selected once for its four lanes. xvperm.w would need an index vector for each lane.
  const __m256i v = (__m256i)a.v;
  const __m256i half = lane < 4 ? __lasx_xvpermi_d(v, 0x44) : __lasx_xvpermi_d(v, 0xee);
  switch (lane % 4) {
    case 0:
      return {(__m256)__lasx_xvrepl128vei_w(half, 0)};
    case 1:
      return {(__m256)__lasx_xvrepl128vei_w(half, 1)};
    case 2:
      return {(__m256)__lasx_xvrepl128vei_w(half, 2)};
    default:
      return {(__m256)__lasx_xvrepl128vei_w(half, 3)};
  }
}
LLMC_INLINE F32x8 zero_f32() {
  return {(__m256)__lasx_xvldi(0)};
}
LLMC_INLINE F32x8 load(const float* p) {
  return {(__m256)loong::load(p)};
}
LLMC_INLINE void store(float* p, F32x8 a) {
  __builtin_memcpy(p, &a.v, sizeof(a.v));
}
LLMC_INLINE F32x8 load_f16(const uint8_t* p) {
  // The conversion widens the first four elements of each half of the register.
  const __m256i half = __lasx_xvpermi_d(loong::broadcast_q(p), 0x10);
  return {__lasx_xvfcvtl_s_h(half)};
}
LLMC_INLINE void store_f16(uint8_t* p, F32x8 a) {
  // The conversion leaves four f16 in each half; the permutation makes them contiguous.
  const __m256i half = __lasx_xvpermi_d(__lasx_xvfcvt_h_s(a.v, a.v), 0x08);
  __builtin_memcpy(p, &half, 16);
}
LLMC_INLINE F32x8 load_bf16(const uint8_t* p) {
  return {(__m256)__lasx_xvslli_w(__lasx_vext2xv_wu_hu(loong::broadcast_q(p)), 16)};
}
LLMC_INLINE Mask8 lanes_below(size_t n) {
  using Lanes = int32_t __attribute__((vector_size(32)));
  const __m256i lane = (__m256i)(Lanes{0, 1, 2, 3, 4, 5, 6, 7});
  return {__lasx_xvslt_w(lane, __lasx_xvreplgr2vr_w(static_cast<int>(n)))};
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
  return {__lasx_xvfadd_s(a.v, b.v)};
}
LLMC_INLINE F32x8 operator-(F32x8 a, F32x8 b) {
  return {__lasx_xvfsub_s(a.v, b.v)};
}
LLMC_INLINE F32x8 operator*(F32x8 a, F32x8 b) {
  return {__lasx_xvfmul_s(a.v, b.v)};
}
LLMC_INLINE F32x8 operator/(F32x8 a, F32x8 b) {
  return {__lasx_xvfdiv_s(a.v, b.v)};
}
LLMC_INLINE F32x8 fma(F32x8 a, F32x8 b, F32x8 c) {
  return {__lasx_xvfmadd_s(a.v, b.v, c.v)};
}
LLMC_INLINE F32x8 sqrt(F32x8 a) {
  return {__lasx_xvfsqrt_s(a.v)};
}
LLMC_INLINE Mask8 less(F32x8 a, F32x8 b) {
  return {__lasx_xvfcmp_clt_s(a.v, b.v)};
}
LLMC_INLINE F32x8 select(Mask8 m, F32x8 a, F32x8 b) {
  return {(__m256)loong::select(m.v, (__m256i)a.v, (__m256i)b.v)};
}
// Not implemented with xvfmax and xvfmin, which return the number if one operand is NaN.
LLMC_INLINE F32x8 max(F32x8 a, F32x8 b) {
  return select(less(b, a), a, b);
}
LLMC_INLINE F32x8 min(F32x8 a, F32x8 b) {
  return select(less(a, b), a, b);
}
template <int d>
LLMC_INLINE F32x8 butterfly(F32x8 a) {
  const __m256i v = (__m256i)a.v;
  const __m256i other = d == 4   ? __lasx_xvpermi_d(v, 0x4e)
                        : d == 2 ? __lasx_xvshuf4i_w(v, 0x4e)
                                 : __lasx_xvshuf4i_w(v, 0xb1);
  constexpr int32_t kSign = INT32_MIN;
  using Lanes = int32_t __attribute__((vector_size(32)));
  const Lanes sign = d == 4   ? Lanes{0, 0, 0, 0, kSign, kSign, kSign, kSign}
                     : d == 2 ? Lanes{0, 0, kSign, kSign, 0, 0, kSign, kSign}
                              : Lanes{0, kSign, 0, kSign, 0, kSign, 0, kSign};
  return {__lasx_xvfadd_s((__m256)other, (__m256)__lasx_xvxor_v(v, (__m256i)sign))};
}

LLMC_INLINE I32x8 splat_i32(int32_t x) {
  return {__lasx_xvreplgr2vr_w(x)};
}
LLMC_INLINE I32x8 zero_i32() {
  return {__lasx_xvldi(0)};
}
LLMC_INLINE I32x8 load_i32(const int32_t* p) {
  return {loong::load(p)};
}
LLMC_INLINE void store_i32(int32_t* p, I32x8 a) {
  __builtin_memcpy(p, &a.v, sizeof(a.v));
}
LLMC_INLINE I32x8 operator+(I32x8 a, I32x8 b) {
  return {__lasx_xvadd_w(a.v, b.v)};
}
LLMC_INLINE I32x8 operator-(I32x8 a, I32x8 b) {
  return {__lasx_xvsub_w(a.v, b.v)};
}
LLMC_INLINE I32x8 operator&(I32x8 a, I32x8 b) {
  return {__lasx_xvand_v(a.v, b.v)};
}
LLMC_INLINE I32x8 operator|(I32x8 a, I32x8 b) {
  return {__lasx_xvor_v(a.v, b.v)};
}
template <int n>
LLMC_INLINE I32x8 shift_left(I32x8 a) {
  return {__lasx_xvslli_w(a.v, n)};
}
template <int n>
LLMC_INLINE I32x8 shift_right_arithmetic(I32x8 a) {
  return {__lasx_xvsrai_w(a.v, n)};
}
LLMC_INLINE I32x8 max_i32(I32x8 a, I32x8 b) {
  return {__lasx_xvmax_w(a.v, b.v)};
}
LLMC_INLINE int32_t reduce_add_i32(I32x8 a) {
  const __m256i pairs = __lasx_xvhaddw_d_w(a.v, a.v);
  const __m256i halves = __lasx_xvhaddw_q_d(pairs, pairs);
  const long low = __lasx_xvpickve2gr_d(halves, 0), high = __lasx_xvpickve2gr_d(halves, 2);
  return static_cast<int32_t>(low + high);
}
LLMC_INLINE F32x8 to_f32(I32x8 a) {
  return {__lasx_xvffint_s_w(a.v)};
}
LLMC_INLINE F32x8 upper_to_f32(I32x8 a) {
  return to_f32(shift_right_arithmetic<16>(a));
}
LLMC_INLINE I32x8 bits(F32x8 a) {
  return {(__m256i)a.v};
}
LLMC_INLINE F32x8 from_bits(I32x8 a) {
  return {(__m256)a.v};
}
LLMC_INLINE I32x8 load_u8(const uint8_t* p) {
  return {__lasx_vext2xv_wu_bu(loong::broadcast_d(p))};
}
LLMC_INLINE I32x8 load_i8(const uint8_t* p) {
  return {__lasx_vext2xv_w_b(loong::broadcast_d(p))};
}
/// Converts each byte to an f16: the sign, a zero bit, the other seven bits, then zeros.
LLMC_INLINE F32x8 load_e4m3(const uint8_t* p) {
  const __m256i wide = __lasx_xvslli_h(__lasx_vext2xv_h_b(loong::broadcast_d(p)), 7);
  const __m256i half = __lasx_xvand_v(wide, __lasx_xvreplgr2vr_h(0xbfff));
  return {__lasx_xvfcvtl_s_h(__lasx_xvpermi_d(half, 0x10))};
}

struct Codes {
  __m256i v;
};
struct Activation4 {
  __m256i v;
};
/// Two 16-bit lanes for each row, |sum| <= 8 * 2 * 15 * 128 = 30 720.
struct BlockSum {
  __m256i v;
};
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
  return {loong::load(p)};
}
LLMC_INLINE void store_codes(uint8_t* p, Codes c) {
  __builtin_memcpy(p, &c.v, sizeof(c.v));
}
LLMC_INLINE Codes low_nibbles(Codes c) {
  return {__lasx_xvandi_b(c.v, 15)};
}
LLMC_INLINE Codes high_nibbles(Codes c) {
  return {__lasx_xvsrli_b(c.v, 4)};
}
template <int kUpper>
LLMC_INLINE Codes with_upper(Codes low, Codes upper) {
  constexpr int kShift = 4 - 2 * kUpper;
  const __m256i moved = kShift > 0   ? __lasx_xvslli_b(upper.v, kShift > 0 ? kShift : 0)
                        : kShift < 0 ? __lasx_xvsrli_b(upper.v, kShift < 0 ? -kShift : 0)
                                     : upper.v;
  return {__lasx_xvbitsel_v(low.v, moved, __lasx_xvreplgr2vr_b(0x30))};
}
template <int kPair>
LLMC_INLINE Codes with_lower(Codes packed, Codes lower) {
  const __m256i moved =
      kPair % 2 == 0 ? __lasx_xvslli_b(packed.v, 2) : __lasx_xvsrli_b(packed.v, 2);
  const __m256i two = kPair == 0 ? lower.v : __lasx_xvsrli_b(lower.v, 2 * kPair);
  // The selected bits are 2 to 5; bits 6 and 7 of `two` are cleared.
  return {__lasx_xvbitsel_v(__lasx_xvandi_b(two, 3), moved, __lasx_xvreplgr2vr_b(0x3c))};
}
template <int kZeroPoint>
LLMC_INLINE Codes centred(Codes c) {
  if constexpr (kZeroPoint < 32) return {__lasx_xvsubi_bu(c.v, kZeroPoint)};
  return {__lasx_xvsub_b(c.v, __lasx_xvreplgr2vr_b(kZeroPoint))};
}
LLMC_INLINE Activation4 load_activation(const int8_t* p) {
  return {loong::broadcast_w(p)};
}
LLMC_INLINE Activation4 load_activation(const int8_t* p, size_t offset) {
  return {loong::broadcast_w(p, offset)};
}
LLMC_INLINE BlockSum mul_u4(Codes c, Activation4 a) {
  return {__lasx_xvmaddwod_h_b(__lasx_xvmulwev_h_b(c.v, a.v), c.v, a.v)};
}
LLMC_INLINE BlockSum mac_u4(BlockSum sum, Codes c, Activation4 a) {
  return {__lasx_xvmaddwod_h_b(__lasx_xvmaddwev_h_b(sum.v, c.v, a.v), c.v, a.v)};
}
LLMC_INLINE BlockSum optimization_barrier(BlockSum sum) {
  asm volatile("" : "+f"(sum.v));
  return sum;
}
LLMC_INLINE ScalePair load_scale_pair(const uint8_t* p) {
  // Copies each byte to all four bytes of its row's lane.
  using Bytes = int8_t __attribute__((vector_size(32)));
  const __m256i spread = (__m256i)(Bytes{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3,  //
                                         4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7});
  const __m256i eight = loong::broadcast_d(p);
  return {__lasx_xvshuf_b(eight, eight, spread)};
}
LLMC_INLINE BlockScale even_scale(ScalePair p) {
  return {__lasx_xvand_v(p.v, __lasx_xvreplgr2vr_h(15))};
}
LLMC_INLINE BlockScale odd_scale(ScalePair p) {
  return {__lasx_xvsrli_h(p.v, 12)};
}
LLMC_INLINE I32x8 add_scaled(I32x8 total, BlockSum sum, BlockScale scale) {
  return {loong::add_pairs(total.v, sum.v, scale.v)};
}
LLMC_INLINE I32x8 row_sums(BlockSum sum) {
  return {__lasx_xvhaddw_w_h(sum.v, sum.v)};
}
LLMC_INLINE PairMin load_min_pair(const uint8_t* p) {
  return {__lasx_vext2xv_hu_bu(loong::broadcast_q(p))};
}
LLMC_INLINE PairMin load_min_single(const uint8_t* p) {
  return {load_u8(p).v};
}
LLMC_INLINE I32x8 add_mins(I32x8 total, PairMin mins, const int16_t* sums) {
  return {loong::add_pairs(total.v, mins.v, loong::broadcast_w(sums))};
}
LLMC_INLINE I32x8 dot_u6(I32x8 total, Codes c, Activation4 a, Codes d, Activation4 b) {
  // Two pairs stay below 2^15: 4 * 63 * 127 = 32 004.
  const BlockSum sum = optimization_barrier(mac_u4(mul_u4(c, a), d, b));
  return {__lasx_xvadd_w(total.v, __lasx_xvhaddw_w_h(sum.v, sum.v))};
}
LLMC_INLINE I32x8 dot_i8(I32x8 total, Codes c, Activation4 a) {
  // A pair stays below 2^15: 2 * 127 * 128 = 32 512. This is one asm statement, because with
  // separate statements the compiler computes many pairs before it adds the first one, and spills
  // registers.
  __m256i pair;
  asm("xvmulwev.h.b %u1, %u2, %u3\n\t"
      "xvmaddwod.h.b %u1, %u2, %u3\n\t"
      "xvhaddw.w.h %u1, %u1, %u1\n\t"
      "xvadd.w %u0, %u0, %u1"
      : "+f"(total.v), "=&f"(pair)
      : "f"(c.v), "f"(a.v));
  return total;
}
LLMC_INLINE void store_i8(int8_t* p, I32x8 a, I32x8 b, I32x8 c, I32x8 d) {
  using Lanes = int32_t __attribute__((vector_size(32)));
  const __m256i order = (__m256i)(Lanes{0, 4, 1, 5, 2, 6, 3, 7});
  const __m256i ab = __lasx_xvssrani_h_w(b.v, a.v, 0);
  const __m256i cd = __lasx_xvssrani_h_w(d.v, c.v, 0);
  const __m256i bytes = __lasx_xvperm_w(__lasx_xvssrani_b_h(cd, ab, 0), order);
  __builtin_memcpy(p, &bytes, sizeof(bytes));
}

/// clang 19 emits no instruction for these hints; the hardware prefetches streams.
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

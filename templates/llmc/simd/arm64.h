#pragma once

#include "llmc/simd/neon.h"

/// Exact panels (kernels/product_q4_exact.h) for Armv8. For usmmla (i8mm), which multiplies
/// unsigned by signed bytes, the bytes of weights are s*c in 0..225. sdot needs signed bytes: the
/// weights are s*c - 128, and sums start at 128 * the sum of the activations. Mins are multiplied
/// as bytes, too. Therefore, the block sums S of activations, which have 13 bits, are divided into
/// two bytes: S = 128 * high + low.
namespace llmc {
inline namespace LLMC_ISA {

struct ExactPanels {
  static constexpr size_t kPanels = 1;
#ifdef LLMC_I8MM
  static constexpr size_t kMinTokens = 2;  // tokens per call of min_sums()
  static constexpr uint8_t kOffset = 0;
#else
  static constexpr size_t kMinTokens = 1;
  static constexpr uint8_t kOffset = 128;
#endif

  /// The block sums of a superblock for a tile of tokens, prepared once for all panels: for each
  /// token their total, and the two parts of each sum, where low parts are in 0..127:
  ///
  ///     sdot    [token][high 8 blocks | low 8 blocks]
  ///     usmmla  [pair of tokens][high 8 | high 8 of the second][low 8 | low 8 of the second]
  struct Sums {
    int32_t total[8];
    alignas(16) int8_t part[8 * 16];
  };
  /// Prepares the sums of a superblock. `sums` points to the i16[2] of the first pair of blocks for
  /// the first token; the next pairs of blocks are `stride` i16 apart. Reads up to 3 tokens past
  /// kTokens.
  template <size_t kTokens>
  static LLMC_INLINE void prepare(const int16_t* sums, size_t stride, size_t blocks, Sums& out) {
#pragma clang loop unroll(full)
    for (size_t four = 0; four < kTokens; four += 4) {
      int32x4_t pair[4], total = vdupq_n_s32(0);
      for (size_t p = 0; p < 4; ++p) {
        const bool there = 2 * p < blocks;
        const int16x8_t v = there ? vld1q_s16(sums + p * stride + four * 2) : vdupq_n_s16(0);
        total = vpadalq_s16(total, v);
        pair[p] = vreinterpretq_s32_s16(v);
      }
      vst1q_s32(out.total + four, total);
      const int32x4_t a0 = vzip1q_s32(pair[0], pair[2]), b0 = vzip1q_s32(pair[1], pair[3]);
      const int32x4_t a1 = vzip2q_s32(pair[0], pair[2]), b1 = vzip2q_s32(pair[1], pair[3]);
      const int8x16_t token[4] = {parts(vzip1q_s32(a0, b0)), parts(vzip2q_s32(a0, b0)),
                                  parts(vzip1q_s32(a1, b1)), parts(vzip2q_s32(a1, b1))};
      int8_t* part = out.part + four * 16;
      for (size_t t = 0; t < 4; t += kMinTokens) {
        if constexpr (kMinTokens == 1) {
          vst1q_s8(part + t * 16, token[t]);
        } else {
          const int64x2_t x = vreinterpretq_s64_s8(token[t]);
          const int64x2_t y = vreinterpretq_s64_s8(token[t + 1]);
          vst1q_s8(part + t * 16, vreinterpretq_s8_s64(vzip1q_s64(x, y)));
          vst1q_s8(part + t * 16 + 16, vreinterpretq_s8_s64(vzip2q_s64(x, y)));
        }
      }
    }
  }

  /// Unpacks one block of packed nibbles [4][8 rows][4] with its scales (one byte per row) to
  /// bytes:
  ///
  ///     sdot    [8][8 rows][4 k]
  ///     usmmla  [4][4 pairs of rows][2 rows][8 k]
  static LLMC_INLINE void unpack(const uint8_t* codes, uint8x8_t scales, uint8_t* out) {
    const uint8x16_t mask = vdupq_n_u8(15), scale = vcombine_u8(scales, scales);
#pragma clang loop unroll(full)
    for (size_t half = 0; half < 2; ++half) {
      const uint8x16_t row = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
      const uint8x16_t first = vaddq_u8(row, vdupq_n_u8(static_cast<uint8_t>(half * 4)));
      uint8x16_t s0 = vqtbl1q_u8(scale, first), s1 = s0;
      if constexpr (kMinTokens == 2) {
        s1 = zip_high(s0, s0);
        s0 = zip_low(s0, s0);
      }
#pragma clang loop unroll(full)
      for (size_t v = 0; v < 4; ++v) {
        const uint8x16_t both = vld1q_u8(codes + v * 32 + half * 16);
        const uint8x16_t low = vandq_u8(both, mask), high = vshrq_n_u8(both, 4);
        if constexpr (kMinTokens == 2) {
          vst1q_u8(out + v * 64 + half * 32, vmulq_u8(zip_low(low, high), s0));
          vst1q_u8(out + v * 64 + half * 32 + 16, vmulq_u8(zip_high(low, high), s1));
        } else {
          const uint8x16_t offset = vdupq_n_u8(kOffset);
          vst1q_u8(out + v * 64 + half * 16, veorq_u8(vmulq_u8(low, s0), offset));
          vst1q_u8(out + v * 64 + 32 + half * 16, veorq_u8(vmulq_u8(high, s0), offset));
        }
      }
    }
  }
  static LLMC_INLINE uint8x8_t even_scales(const uint8_t* p) {
    return vand_u8(vld1_u8(p), vdup_n_u8(15));
  }
  static LLMC_INLINE uint8x8_t odd_scales(const uint8_t* p) { return vshr_n_u8(vld1_u8(p), 4); }

  /// Unpacks the mins of a superblock to bytes, 0 for missing blocks:
  ///
  ///     sdot    [2][8 rows][4 blocks]
  ///     usmmla  [4 pairs of rows][2 rows][8 blocks]
  static LLMC_INLINE void unpack_mins(const uint8_t* mins, size_t blocks, uint8_t* out) {
    uint16x8_t pair[4];
    for (size_t p = 0; p < 4; ++p) {
      const uint8_t* at = mins + p * 16;
      pair[p] = 2 * p + 1 < blocks    ? vreinterpretq_u16_u8(vld1q_u8(at))
                : 2 * p + 1 == blocks ? vmovl_u8(vld1_u8(at))
                                      : vdupq_n_u16(0);
    }
    const uint8x16_t offset = vdupq_n_u8(kOffset);
    for (size_t half = 0; half < 2; ++half) {
      const uint16x8_t a = half == 0 ? vzip1q_u16(pair[0], pair[1]) : vzip2q_u16(pair[0], pair[1]);
      const uint16x8_t b = half == 0 ? vzip1q_u16(pair[2], pair[3]) : vzip2q_u16(pair[2], pair[3]);
      const uint8x16_t first = vreinterpretq_u8_u16(a), second = vreinterpretq_u8_u16(b);
      if constexpr (kMinTokens == 2) {
        vst1q_u8(out + half * 32, zip_low(first, second));
        vst1q_u8(out + half * 32 + 16, zip_high(first, second));
      } else {
        vst1q_u8(out + half * 16, veorq_u8(first, offset));
        vst1q_u8(out + 32 + half * 16, veorq_u8(second, offset));
      }
    }
  }

#ifdef LLMC_I8MM
  /// Stores unpacked codes of 8 consecutive elements along K in the layout of unpack(). `low` and
  /// `high` contain 4 elements each, [8 rows][4].
  static LLMC_INLINE void store_steps(uint8_t* out, Codes low, Codes high) {
    vst1q_u8(out, zip_low(low.low, high.low));
    vst1q_u8(out + 16, zip_high(low.low, high.low));
    vst1q_u8(out + 32, zip_low(low.high, high.high));
    vst1q_u8(out + 48, zip_high(low.high, high.high));
  }

  /// Sums of 8 rows x kTokens tokens, in squares of 2 rows x 2 tokens. kSigned: codes are signed.
  template <size_t kTokens, bool kSigned = false>
  struct Tile {
    static constexpr size_t kPairs = (kTokens + 1) / 2;
    int32x4_t sum[kPairs][4];

    LLMC_INLINE void begin() {
      for (auto& pair : sum) {
        for (int32x4_t& square : pair) square = vdupq_n_s32(0);
      }
    }
    LLMC_INLINE void begin(const Sums&) { begin(); }
    /// A block has 4 steps of 8 elements. Adds the products of kSteps steps from step `first` on,
    /// whose weights are at `codes`. `a` are the activations of all steps, [4][kTokens][8], with 8
    /// more readable bytes after them if kTokens is odd.
    template <size_t kSteps = 4>
    LLMC_INLINE void add_block(const uint8_t* codes, const int8_t* a, size_t first = 0) {
#pragma clang loop unroll(full)
      for (size_t v = 0; v < kSteps; ++v) {
        uint8x16_t rows[4];
#pragma clang loop unroll(full)
        for (size_t r = 0; r < 4; ++r) rows[r] = vld1q_u8(codes + v * 64 + r * 16);
#pragma clang loop unroll(full)
        for (size_t p = 0; p < kPairs; ++p) {
          const int8x16_t tokens = vld1q_s8(a + (first + v) * kTokens * 8 + p * 16);
#pragma clang loop unroll(full)
          for (size_t r = 0; r < 4; ++r) {
            sum[p][r] = kSigned ? vmmlaq_s32(sum[p][r], vreinterpretq_s8_u8(rows[r]), tokens)
                                : vusmmlaq_s32(sum[p][r], rows[r], tokens);
          }
        }
      }
    }
    LLMC_INLINE I32x8 rows(size_t t) const { return token_rows(sum[t / 2], t % 2); }
  };

  /// Computes the sums of mins times block sums for tokens t and t + 1.
  static LLMC_INLINE void min_sums(const uint8_t* mins, const Sums& sums, size_t t,
                                   I32x8 (&result)[2]) {
    const int8x16_t high = vld1q_s8(sums.part + t * 16), low = vld1q_s8(sums.part + t * 16 + 16);
    int32x4_t sum[4];
#pragma clang loop unroll(full)
    for (size_t r = 0; r < 4; ++r) {
      const uint8x16_t rows = vld1q_u8(mins + r * 16);
      sum[r] = vshlq_n_s32(vusmmlaq_s32(vdupq_n_s32(0), rows, high), 7);
      sum[r] = vusmmlaq_s32(sum[r], rows, low);
    }
    result[0] = token_rows(sum, 0);
    result[1] = token_rows(sum, 1);
  }

#else
  /// Sums of 8 rows x kTokens tokens.
  template <size_t kTokens>
  struct Tile {
    I32x8 sum[kTokens];

    LLMC_INLINE void begin(const Sums& sums) {
#pragma clang loop unroll(full)
      for (size_t t = 0; t < kTokens; ++t) sum[t] = splat_i32(sums.total[t] * kOffset);
    }
    /// Adds the products of a block. `a` are its activations, [8][kTokens][4].
    LLMC_INLINE void add_block(const uint8_t* codes, const int8_t* a) {
#pragma clang loop unroll(full)
      for (size_t v = 0; v < 8; ++v) {
        const Codes c = load_codes(codes + v * 32);
#pragma clang loop unroll(full)
        for (size_t t = 0; t < kTokens; ++t) {
          sum[t] = dot_i8(sum[t], c, load_activation(a, (v * kTokens + t) * 4));
        }
      }
    }
    LLMC_INLINE I32x8 rows(size_t t) const { return sum[t]; }
  };

  /// Computes the sum of mins times block sums for token t.
  static LLMC_INLINE void min_sums(const uint8_t* mins, const Sums& sums, size_t t,
                                   I32x8 (&result)[1]) {
    const int8_t* part = sums.part + t * 16;
    const Codes first = load_codes(mins), second = load_codes(mins + 32);
    // (total + sum of (m - 128) * high) * 128 + sum of (m - 128) * low
    I32x8 sum = splat_i32(sums.total[t]);
    sum = dot_i8(sum, first, load_activation(part, 0));
    sum = dot_i8(sum, second, load_activation(part, 4));
    sum = shift_left<7>(sum);
    sum = dot_i8(sum, first, load_activation(part, 8));
    result[0] = dot_i8(sum, second, load_activation(part, 12));
  }
#endif

 private:
  /// Returns the two parts of eight i16 S as bytes: [S >> 7 | S & 127].
  static LLMC_INLINE int8x16_t parts(int32x4_t sums) {
    const int16x8_t s = vreinterpretq_s16_s32(sums);
    const int8x16_t both =
        vuzp1q_s8(vreinterpretq_s8_s16(vshrq_n_s16(s, 7)), vreinterpretq_s8_s16(s));
    const int8x16_t mask = {-1, -1, -1, -1, -1, -1, -1, -1, 127, 127, 127, 127, 127, 127, 127, 127};
    return vandq_s8(both, mask);
  }
  /// Interleave the 32-bit lanes of the low or high halves of a and b.
  static LLMC_INLINE uint8x16_t zip_low(uint8x16_t a, uint8x16_t b) {
    return vreinterpretq_u8_u32(vzip1q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
  }
  static LLMC_INLINE uint8x16_t zip_high(uint8x16_t a, uint8x16_t b) {
    return vreinterpretq_u8_u32(vzip2q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
  }
  /// Returns the sums of one token (0 or 1) for 8 rows from four squares [row 0: token 0, 1; row 1:
  /// token 0, 1].
  static LLMC_INLINE I32x8 token_rows(const int32x4_t (&square)[4], size_t second) {
    return second == 0 ? I32x8{vuzp1q_s32(square[0], square[1]), vuzp1q_s32(square[2], square[3])}
                       : I32x8{vuzp2q_s32(square[0], square[1]), vuzp2q_s32(square[2], square[3])};
  }
};

}  // namespace LLMC_ISA
}  // namespace llmc

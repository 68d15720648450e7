#pragma once

#include "llmc/kernels/quantize.h"

/// One panel (8 rows) of q4 weights times quantized activations:
///   y[t][r] = sum over superblocks of A[t] * (S[r] * I1 + M[r] * I2)
///   I1 = sum_b s[r][b] * sum_k c[r][k] a[t][k],   I2 = sum_b m[r][b] * sum_k a[t][k]
/// I1 and I2 are exact, also as floats (|I1| <= 256 * 225 * 127 < 2^23, |I2| <= 8 * 255 * 4064 <
/// 2^23), so only the fold of a superblock rounds: acc = fma(A, fma(S, float(I1), M * float(I2)),
/// acc).
namespace llmc {
inline namespace LLMC_ISA {

struct Q4Fold {
  F32x8 scale, min;
  LLMC_INLINE F32x8 operator()(F32x8 sum, float activation_scale, I32x8 i1, I32x8 i2) const {
    return fma(splat(activation_scale), fma(scale, to_f32(i1), min * to_f32(i2)), sum);
  }
};
LLMC_INLINE Q4Fold q4_fold(const uint8_t* panel) {
  return {load_bf16(panel), load_bf16(panel + kPanelRows * sizeof(uint16_t))};
}

/// Mins of blocks 2*pair and 2*pair + 1 of a superblock; the last one may stand alone.
LLMC_INLINE PairMin q4_min_pair(const uint8_t* mins, size_t blocks, size_t pair) {
  const uint8_t* at = mins + pair * 2 * kPanelRows;
  return 2 * pair + 1 < blocks ? load_min_pair(at) : load_min_single(at);
}

/// Bytes ahead of the stream's position that are asked for: about what arrives during one main
/// memory access.
inline constexpr size_t kPrefetchAhead = 2560;

/// One superblock of kBlocks blocks, one token: straight from the packed nibbles.
template <size_t kBlocks>
LLMC_INLINE void q4_super_single(const uint8_t* super, const int8_t* codes, const int16_t* sums,
                                 I32x8& i1, I32x8& i2) {
  const uint8_t* scales = super + q4_scale_offset(kBlocks);
  const uint8_t* mins = super + q4_min_offset(kBlocks);
  I32x8 total[2] = {zero_i32(), zero_i32()};
#pragma clang loop unroll(full)
  for (size_t b = 0; b < kBlocks; ++b) {
    const uint8_t* block = super + b * kQ4BlockCodeBytes;
    const int8_t* a = codes + b * kBlock;
    prefetch(block + kPrefetchAhead);
    prefetch(block + kPrefetchAhead + 64);
    const Codes first = load_codes(block);
    BlockSum sum = mul_u4(low_nibbles(first), load_activation(a));
    sum = mac_u4(sum, high_nibbles(first), load_activation(a + 4));
#pragma clang loop unroll(full)
    for (size_t v = 1; v < 4; ++v) {
      const Codes both = load_codes(block + v * 32);
      sum = mac_u4(sum, low_nibbles(both), load_activation(a + v * 8));
      sum = mac_u4(sum, high_nibbles(both), load_activation(a + v * 8 + 4));
    }
    const ScalePair pair = load_scale_pair(scales + b / 2 * kPanelRows);
    total[b % 2] = add_scaled(total[b % 2], sum, b % 2 == 0 ? even_scale(pair) : odd_scale(pair));
  }
  i1 = total[0] + total[1];
  i2 = zero_i32();
#pragma clang loop unroll(full)
  for (size_t pair = 0; pair < ceil_div(kBlocks, 2); ++pair) {
    i2 = add_mins(i2, q4_min_pair(mins, kBlocks, pair), sums + pair * 2);
  }
}

/// One panel, one token.
template <size_t K>
LLMC_INLINE F32x8 q4_panel_single(const uint8_t* panel, const Quantized& x) {
  constexpr size_t kFull = block_count(K) / kBlocksPerSuper;
  constexpr size_t kRest = block_count(K) % kBlocksPerSuper;
  const Q4Fold fold = q4_fold(panel);
  F32x8 sum = zero_f32();
  I32x8 i1, i2;
  const uint8_t* super = panel + kQ4HeaderBytes;
  for (size_t s = 0; s < kFull; ++s, super += q4_super_bytes(kBlocksPerSuper)) {
    q4_super_single<kBlocksPerSuper>(super, x.codes + s * kSuper, x.sums + s * kBlocksPerSuper, i1,
                                     i2);
    sum = fold(sum, x.scales[s], i1, i2);
  }
  if constexpr (kRest != 0) {
    q4_super_single<kRest>(super, x.codes + kFull * kSuper, x.sums + kFull * kBlocksPerSuper, i1,
                           i2);
    sum = fold(sum, x.scales[kFull], i1, i2);
  }
  return sum;
}

/// A superblock's codes, one byte each: [block][8][32].
struct alignas(64) Q4Unpacked {
  uint8_t codes[kBlocksPerSuper * kPanelRows * kBlock];
};
LLMC_INLINE void q4_unpack(const uint8_t* super, size_t blocks, Q4Unpacked& out) {
  for (size_t v = 0; v < blocks * 4; ++v) {
    const Codes both = load_codes(super + v * 32);
    store_codes(out.codes + v * 64, low_nibbles(both));
    store_codes(out.codes + v * 64 + 32, high_nibbles(both));
  }
}

/// One superblock, kTokens tokens from `token` on, added to y[token][8].
template <size_t kTokens>
LLMC_INLINE void q4_super_tile(const Q4Unpacked& unpacked, const uint8_t* super, size_t blocks,
                               const Quantized& x, size_t s, size_t token, const Q4Fold& fold,
                               float* y) {
  const uint8_t* scales = super + q4_scale_offset(blocks);
  const uint8_t* mins = super + q4_min_offset(blocks);
  I32x8 i1[kTokens], i2[kTokens];
  for (size_t t = 0; t < kTokens; ++t) i1[t] = i2[t] = zero_i32();
  const int8_t* a = x.codes + (s * kBlocksPerSuper * x.tokens + token) * kBlock;
  for (size_t b = 0; b < blocks; ++b, a += x.tokens * kBlock) {
    const uint8_t* codes = unpacked.codes + b * kPanelRows * kBlock;
    BlockSum sum[kTokens];
    const Codes first = load_codes(codes);
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kTokens; ++t) sum[t] = mul_u4(first, load_activation(a + t * kBlock));
#pragma clang loop unroll(full)
    for (size_t v = 1; v < 8; ++v) {
      const Codes c = load_codes(codes + v * 32);
#pragma clang loop unroll(full)
      for (size_t t = 0; t < kTokens; ++t) {
        sum[t] = mac_u4(sum[t], c, load_activation(a + t * kBlock + v * 4));
      }
    }
    const ScalePair pair = load_scale_pair(scales + b / 2 * kPanelRows);
    const BlockScale scale = b % 2 == 0 ? even_scale(pair) : odd_scale(pair);
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kTokens; ++t) i1[t] = add_scaled(i1[t], sum[t], scale);
  }
  const int16_t* sums = x.sums + (s * (kBlocksPerSuper / 2) * x.tokens + token) * 2;
  for (size_t pair = 0; pair < ceil_div(blocks, 2); ++pair, sums += x.tokens * 2) {
    const PairMin min = q4_min_pair(mins, blocks, pair);
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kTokens; ++t) i2[t] = add_mins(i2[t], min, sums + t * 2);
  }
#pragma clang loop unroll(full)
  for (size_t t = 0; t < kTokens; ++t) {
    float* out = y + t * kPanelRows;
    store(out, fold(load(out), x.scales[s * x.tokens + token + t], i1[t], i2[t]));
  }
}

/// Tokens whose 16-bit sums stay in registers together.
inline constexpr size_t kQ4TokenTile = 6;

template <size_t kRest>
LLMC_INLINE void q4_super_rest(size_t rest, const Q4Unpacked& unpacked, const uint8_t* super,
                               size_t blocks, const Quantized& x, size_t s, size_t token,
                               const Q4Fold& fold, float* y) {
  if (rest == kRest) {
    q4_super_tile<kRest>(unpacked, super, blocks, x, s, token, fold, y);
  } else if constexpr (kRest > 1) {
    q4_super_rest<kRest - 1>(rest, unpacked, super, blocks, x, s, token, fold, y);
  }
}

/// One panel, tokens [token, token + count): y[count][8].
template <size_t K>
LLMC_NOINLINE inline void q4_panel_tokens(const uint8_t* panel, const Quantized& x, size_t token,
                                          size_t count, float* y) {
  const Q4Fold fold = q4_fold(panel);
  for (size_t t = 0; t < count; ++t) store(y + t * kPanelRows, zero_f32());
  Q4Unpacked unpacked;
  for (size_t s = 0; s < super_count(K); ++s) {
    const uint8_t* super = panel + q4_super_offset(s);
    const size_t blocks = blocks_in_super(K, s);
    q4_unpack(super, blocks, unpacked);
    size_t t = 0;
    for (; t + kQ4TokenTile <= count; t += kQ4TokenTile) {
      q4_super_tile<kQ4TokenTile>(unpacked, super, blocks, x, s, token + t, fold,
                                  y + t * kPanelRows);
    }
    if (t < count) {
      q4_super_rest<kQ4TokenTile - 1>(count - t, unpacked, super, blocks, x, s, token + t, fold,
                                      y + t * kPanelRows);
    }
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc

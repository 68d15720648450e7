#pragma once

#include "llmc/kernels/quantize.h"

/// One panel (8 rows) of q8 weights times quantized activations:
///   y[t][r] = sum over superblocks of A[t] * ( sum_b d[r][b] * I_b ),  I_b = sum_k c[r][k] a[t][k]
/// I_b is exact; in a superblock part = fma(d, float(I_b), part) for b in order, from 0; then
/// acc = fma(A, part, acc).
namespace llmc {
inline namespace LLMC_ISA {

/// One superblock, kTokens tokens from `token` on, added to y[token][8].
template <size_t kTokens>
LLMC_INLINE void q8_super_tile(const uint8_t* super, size_t blocks, const Quantized& x, size_t s,
                               size_t token, F32x8* y) {
  const uint8_t* scales = super + q8_scale_offset(blocks);
  F32x8 part[kTokens];
  for (size_t t = 0; t < kTokens; ++t) part[t] = zero_f32();
  const int8_t* a = x.codes + (s * kBlocksPerSuper * x.tokens + token) * kBlock;
  for (size_t b = 0; b < blocks; ++b, a += x.tokens * kBlock) {
    const uint8_t* codes = super + b * kQ8BlockCodeBytes;
    I32x8 sum[kTokens];
    for (size_t t = 0; t < kTokens; ++t) sum[t] = zero_i32();
#pragma clang loop unroll(full)
    for (size_t v = 0; v < 8; ++v) {
      const Codes c = load_codes(codes + v * 32);
#pragma clang loop unroll(full)
      for (size_t t = 0; t < kTokens; ++t) {
        sum[t] = dot_i8(sum[t], c, load_activation(a + t * kBlock + v * 4));
      }
    }
    const F32x8 scale = load_f16(scales + b * kPanelRows * sizeof(uint16_t));
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kTokens; ++t) part[t] = fma(scale, to_f32(sum[t]), part[t]);
  }
#pragma clang loop unroll(full)
  for (size_t t = 0; t < kTokens; ++t) {
    y[t] = fma(splat(x.scales[s * x.tokens + token + t]), part[t], y[t]);
  }
}

template <size_t K, size_t kTokens>
LLMC_INLINE void q8_panel_tile(const uint8_t* panel, const Quantized& x, size_t token, float* y) {
  F32x8 sum[kTokens];
  for (size_t t = 0; t < kTokens; ++t) sum[t] = zero_f32();
  for (size_t s = 0; s < super_count(K); ++s) {
    q8_super_tile<kTokens>(panel + q8_super_offset(s), blocks_in_super(K, s), x, s, token, sum);
  }
  for (size_t t = 0; t < kTokens; ++t) store(y + t * kPanelRows, sum[t]);
}

/// kPanels panels `stride` bytes apart, one token: y of each `y_stride` floats apart (side by side
/// as in product_q4.h).
template <size_t K, size_t kPanels>
LLMC_NOINLINE inline void q8_panels_single(const uint8_t* panel, size_t stride, const Quantized x,
                                           float* y, size_t y_stride) {
  F32x8 total[kPanels];
  for (size_t p = 0; p < kPanels; ++p) total[p] = zero_f32();
  for (size_t s = 0; s < super_count(K); ++s) {
    const size_t blocks = blocks_in_super(K, s);
    const uint8_t* super = panel + q8_super_offset(s);
    const uint8_t* scales = super + q8_scale_offset(blocks);
    const int8_t* a = x.codes + s * kSuper;
    F32x8 part[kPanels];
    for (size_t p = 0; p < kPanels; ++p) part[p] = zero_f32();
#pragma clang loop unroll(disable)
    for (size_t b = 0; b < blocks; ++b) {
      I32x8 sum[kPanels];
      for (size_t p = 0; p < kPanels; ++p) sum[p] = zero_i32();
#pragma clang loop unroll(full)
      for (size_t v = 0; v < 8; ++v) {
        const Activation4 activation = load_activation(a + b * kBlock + v * 4);
#pragma clang loop unroll(full)
        for (size_t p = 0; p < kPanels; ++p) {
          const uint8_t* at = super + p * stride + b * kQ8BlockCodeBytes + v * 32;
          if (v % 2 == 0) prefetch(at + kPrefetchAhead);
          sum[p] = dot_i8(sum[p], load_codes(at), activation);
        }
      }
#pragma clang loop unroll(full)
      for (size_t p = 0; p < kPanels; ++p) {
        const F32x8 scale = load_f16(scales + p * stride + b * kPanelRows * sizeof(uint16_t));
        part[p] = fma(scale, to_f32(sum[p]), part[p]);
      }
    }
    for (size_t p = 0; p < kPanels; ++p) total[p] = fma(splat(x.scales[s]), part[p], total[p]);
  }
  for (size_t p = 0; p < kPanels; ++p) store(y + p * y_stride, total[p]);
}

/// One panel, tokens [token, token + count): y[count][8].
template <size_t K>
LLMC_NOINLINE inline void q8_panel_tokens(const uint8_t* panel, const Quantized x, size_t token,
                                          size_t count, float* y) {
  // Besides the sums a token needs its partial and total float sums.
  constexpr size_t kTile = kTokenTile < 4 ? kTokenTile : 4;
  size_t t = 0;
  for (; t + kTile <= count; t += kTile) {
    q8_panel_tile<K, kTile>(panel, x, token + t, y + t * kPanelRows);
  }
  if constexpr (kTile > 2) {
    for (; t + 2 <= count; t += 2) q8_panel_tile<K, 2>(panel, x, token + t, y + t * kPanelRows);
  }
  if (t < count) q8_panel_tile<K, 1>(panel, x, token + t, y + t * kPanelRows);
}

}  // namespace LLMC_ISA
}  // namespace llmc

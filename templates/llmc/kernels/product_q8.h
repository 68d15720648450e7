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
      if (kTokens == 1 && v % 2 == 0) prefetch(codes + 2 * 2560 + v * 32);
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

/// One panel, tokens [token, token + count): y[count][8].
template <size_t K>
LLMC_NOINLINE inline void q8_panel_tokens(const uint8_t* panel, const Quantized& x, size_t token,
                                          size_t count, float* y) {
  size_t t = 0;
  for (; t + 4 <= count; t += 4) q8_panel_tile<K, 4>(panel, x, token + t, y + t * kPanelRows);
  if (t + 2 <= count) {
    q8_panel_tile<K, 2>(panel, x, token + t, y + t * kPanelRows);
    t += 2;
  }
  if (t < count) q8_panel_tile<K, 1>(panel, x, token + t, y + t * kPanelRows);
}

}  // namespace LLMC_ISA
}  // namespace llmc

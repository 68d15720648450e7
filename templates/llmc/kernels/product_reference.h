#pragma once

#include "llmc/kernels/product_coded.h"
#include "llmc/kernels/product_float.h"
#include "llmc/kernels/product_q4.h"

/// Products without tiling, for levels 1 and 2: one panel and one token at a time, directly from
/// the packed weights. Operations have the same order as in the tiles of product_*.h, so the
/// results have the same bits.
namespace llmc {
inline namespace LLMC_ISA {

/// Returns `sum` plus the product of superblock `s` of a panel with token `token`.
template <size_t kBlocks>
LLMC_INLINE F32x8 q4_super_reference(const uint8_t* panel, size_t s, const Quantized& x,
                                     size_t token, const Q4Fold& fold, F32x8 sum) {
  const uint8_t* super = panel + q4_super_offset(s);
  const uint8_t* scales = super + q4_scale_offset(kBlocks);
  const uint8_t* mins = super + q4_min_offset(kBlocks);
  const size_t stride = x.tokens * kBlock;
  const int8_t* a = x.codes + (s * kBlocksPerSuper * x.tokens + token) * kBlock;
  const int16_t* sums = x.sums + (s * (kBlocksPerSuper / 2) * x.tokens + token) * 2;
  I32x8 i1 = zero_i32(), i2 = zero_i32();
  BlockSum block[1];
  for (size_t pair = 0; pair < ceil_div(kBlocks, 2); ++pair) {
    const ScalePair scale = load_scale_pair(scales + pair * kPanelRows);
    q4_block_gemv<1, false>(super + 2 * pair * kQ4BlockCodeBytes, 0, a, block);
    i1 = add_scaled(i1, block[0], even_scale(scale));
    if (kBlocks % 2 == 0 || pair < kBlocks / 2) {
      q4_block_gemv<1, false>(super + (2 * pair + 1) * kQ4BlockCodeBytes, 0, a + stride, block);
      i1 = add_scaled(i1, block[0], odd_scale(scale));
    }
    i2 = add_mins(i2, q4_min_pair(mins, kBlocks, pair), sums);
    a += 2 * stride;
    sums += 2 * x.tokens;
  }
  return fold(sum, x.scales[s * x.tokens + token], i1, i2);
}

/// Computes y[8] of one panel for token `token`.
template <size_t K>
LLMC_NOINLINE inline void q4_panel_reference(const uint8_t* panel, const Quantized x, size_t token,
                                             float* y) {
  constexpr size_t kFull = block_count(K) / kBlocksPerSuper;
  constexpr size_t kRest = block_count(K) % kBlocksPerSuper;
  const Q4Fold fold = q4_fold(panel);
  F32x8 sum = zero_f32();
  for (size_t s = 0; s < kFull; ++s) {
    sum = q4_super_reference<kBlocksPerSuper>(panel, s, x, token, fold, sum);
  }
  if constexpr (kRest != 0) sum = q4_super_reference<kRest>(panel, kFull, x, token, fold, sum);
  store(y, sum);
}

/// Computes y[8] of one panel of coded weights for token `token`.
template <CodedFormat kFormat, size_t K>
LLMC_NOINLINE inline void coded_panel_reference(const uint8_t* panel, const Quantized x,
                                                size_t token, float* y) {
  using Shape = CodedShape<kFormat>;
  F32x8 total = zero_f32();
  for (size_t s = 0; s < super_count(K); ++s) {
    const size_t blocks = blocks_in_super(K, s);
    const uint8_t* codes = panel + coded_super_offset(kFormat, s);
    const uint8_t* scales = codes + coded_scale_offset(kFormat, blocks);
    const uint8_t* zeros = codes + coded_zero_offset(kFormat, blocks);
    const uint8_t* lower = lower_bits<kFormat>(panel, K, s);
    F32x8 part = zero_f32();
    const auto group = [&](size_t first, size_t count, size_t half) LLMC_INLINE_LAMBDA {
      I32x8 sum[1] = {zero_i32()};
      const size_t block = s * kBlocksPerSuper + first;
      for (size_t b = 0; b < count; ++b) {
        coded_block_gemv<kFormat, false>(
            codes + (first + b) * coded_block_bytes(kFormat) +
                half * (coded_block_bytes(kFormat) / 2),
            SplitPlace{lower_after<kFormat>(lower, first + b)}, 0,
            x.codes + ((block + b) * x.tokens + token) * kBlock + half * (kBlock / 2), sum);
      }
      const F32x8 activations = splat(static_cast<float>(
          Shape::kSums ? coded_activations<kFormat>(x, token, block, count, half) : 0));
      part = fma(coded_numbers<kFormat>(scales),
                 coded_difference<kFormat>(sum[0], activations, zeros), part);
      scales += kPanelRows * coded_number_bytes(kFormat);
      zeros += kPanelRows * coded_zero_bytes(kFormat);
    };
    for (size_t b = 0; b < blocks; b += Shape::kGroupBlocks) {
      group(b, blocks - b < Shape::kGroupBlocks ? blocks - b : Shape::kGroupBlocks, 0);
      if constexpr (Shape::kHalves) group(b, 1, 1);
    }
    total = fma(splat(x.scales[s * x.tokens + token]), part, total);
  }
  store(y, total);
}

}  // namespace LLMC_ISA
}  // namespace llmc

#pragma once

#include "llmc/kernels/stage.h"

/// Products of panels of f32 or f16 weights with float rows: y[t][r] = sum_k w[r][k] x[t][k],
/// computed as acc = fma(x, w, acc) for k in order, from acc = 0. Each output is one dependency
/// chain, so several panels or tokens are computed at the same time.
namespace llmc {
inline namespace LLMC_ISA {

template <WeightKind Kind>
LLMC_INLINE F32x8 load_weights(const uint8_t* panel, size_t k) {
  if constexpr (Kind == WeightKind::kF16) return load_f16(panel + f16_position(0, k));
  return load(reinterpret_cast<const float*>(panel + f32_position(0, k)));
}

/// Computes the products of kPanels panels, panel_stride bytes apart, with kTokens tokens, whose
/// rows in x are `stride` floats apart. The results of panels are y_stride floats apart, those of
/// tokens 8 floats.
template <WeightKind Kind, size_t K, size_t kPanels, size_t kTokens>
LLMC_INLINE void float_tile(const uint8_t* panel, size_t panel_stride, const float* x,
                            size_t stride, float* y, size_t y_stride) {
  F32x8 sum[kPanels][kTokens];
  for (size_t p = 0; p < kPanels; ++p) {
    for (size_t t = 0; t < kTokens; ++t) sum[p][t] = zero_f32();
  }
  for (size_t k = 0; k < K; ++k) {
    F32x8 w[kPanels];
#pragma clang loop unroll(full)
    for (size_t p = 0; p < kPanels; ++p) w[p] = load_weights<Kind>(panel + p * panel_stride, k);
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kTokens; ++t) {
      const F32x8 value = splat_at(x + t * stride + k);
#pragma clang loop unroll(full)
      for (size_t p = 0; p < kPanels; ++p) sum[p][t] = fma(value, w[p], sum[p][t]);
    }
  }
  for (size_t p = 0; p < kPanels; ++p) {
    for (size_t t = 0; t < kTokens; ++t) {
      store(y + p * y_stride + t * kPanelRows, sum[p][t]);
    }
  }
}

/// Computes y[panels][count][8] for kPanels consecutive panels and `count` tokens: first in tiles
/// of kFloatTokens tokens (more with fewer panels), then the remaining tokens.
template <WeightKind Kind, size_t K, size_t kPanels>
LLMC_NOINLINE inline void float_panels(const uint8_t* panel, const float* x, size_t stride,
                                       size_t count, float* y) {
  constexpr size_t kPanelBytes = weight_panel_bytes(Kind, K);
  constexpr size_t kTile = kFloatTokens * kFloatPanels / kPanels;
  const size_t y_stride = count * kPanelRows;
  size_t t = 0;
  for (; t + kTile <= count; t += kTile) {
    float_tile<Kind, K, kPanels, kTile>(panel, kPanelBytes, x + t * stride, stride,
                                        y + t * kPanelRows, y_stride);
  }
  for (; t + 2 <= count; t += 2) {
    float_tile<Kind, K, kPanels, 2>(panel, kPanelBytes, x + t * stride, stride, y + t * kPanelRows,
                                    y_stride);
  }
  if (t < count) {
    float_tile<Kind, K, kPanels, 1>(panel, kPanelBytes, x + t * stride, stride, y + t * kPanelRows,
                                    y_stride);
  }
}

/// Computes the products of one token with kPanels panels at a distance of `stride` bytes. The
/// results of panels are `y_stride` floats apart.
template <WeightKind Kind, size_t K, size_t kPanels>
LLMC_NOINLINE inline void float_panels_gemv(const uint8_t* panel, size_t stride, const float* x,
                                            float* y, size_t y_stride) {
  float_tile<Kind, K, kPanels, 1>(panel, stride, x, 0, y, y_stride);
}

/// Computes y[panels][count][8] for `panels` consecutive panels and `count` tokens.
template <WeightKind Kind, size_t K>
LLMC_INLINE void float_product(const uint8_t* panel, size_t panels, const float* x, size_t stride,
                               size_t count, float* y) {
  constexpr size_t kPanelBytes = weight_panel_bytes(Kind, K);
  const size_t floats = count * kPanelRows;
  size_t p = 0;
  for (; kFloatPanels > 2 && p + kFloatPanels <= panels; p += kFloatPanels) {
    float_panels<Kind, K, kFloatPanels>(panel + p * kPanelBytes, x, stride, count, y + p * floats);
  }
  for (; p + 2 <= panels; p += 2) {
    float_panels<Kind, K, 2>(panel + p * kPanelBytes, x, stride, count, y + p * floats);
  }
  if (p < panels) {
    float_panels<Kind, K, 1>(panel + p * kPanelBytes, x, stride, count, y + p * floats);
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc

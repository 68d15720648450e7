#pragma once

#include "llmc/kernels/stage.h"

/// Products of panels of f32 or f16 weights with float rows: y[t][r] = sum_k w[r][k] x[t][k],
/// computed as acc = fma(x, w, acc) for k in order, from acc = 0. Each output is one dependency
/// chain, so several panels or tokens are computed at the same time.
namespace llmc {
inline namespace LLMC_ISA {

template <WeightKind kKind>
struct FloatWeights : Floats {};
template <>
struct FloatWeights<WeightKind::kF16> : Halves {};

/// Computes the products of kPanels panels, panel_stride bytes apart, with kTokens tokens, whose
/// rows in x are `stride` floats apart. The results of panels are y_stride floats apart, the
/// results of tokens 8 floats. With an even number of panels and more than one token, pairs of
/// panels share vectors of 16 floats.
template <WeightKind Kind, size_t K, size_t kPanels, size_t kTokens>
LLMC_INLINE void float_tile(const uint8_t* panel, size_t panel_stride, const float* x,
                            size_t stride, float* y, size_t y_stride) {
  constexpr size_t kWide = kPanels % 2 == 0 && kTokens > 1 ? 2 : 1, kVectors = kPanels / kWide;
  using V = Lanes<kWide>;
  const uint8_t* panels[kPanels];
  for (size_t p = 0; p < kPanels; ++p) panels[p] = panel + p * panel_stride;
  typename V::Vector sum[kVectors][kTokens];
  for (auto& row : sum) {
    for (auto& s : row) s = V::zero();
  }
  for (size_t k = 0; k < K; ++k) {
    typename V::Vector w[kVectors];
#pragma clang loop unroll(full)
    for (size_t v = 0; v < kVectors; ++v) {
      w[v] = V::template load<FloatWeights<Kind>>(panels + v * kWide, k * kPanelRows);
    }
#pragma clang loop unroll(full)
    for (size_t t = 0; t < kTokens; ++t) {
      const auto value = V::splat_at(x + t * stride + k);
#pragma clang loop unroll(full)
      for (size_t v = 0; v < kVectors; ++v) sum[v][t] = fma(value, w[v], sum[v][t]);
    }
  }
  for (size_t v = 0; v < kVectors; ++v) {
    for (size_t t = 0; t < kTokens; ++t) {
      V::store_at(y + v * kWide * y_stride + t * kPanelRows, y_stride, sum[v][t]);
    }
  }
}

/// Returns the number of registers for the sums of one token and `panels` panels.
constexpr size_t float_registers(size_t panels) {
  return ceil_div(panels * kPanelRows, kRegisterFloats);
}

/// Returns the number of tokens of a tile of rows of k floats. Rows that are a multiple of a page
/// apart map to the same sets of the L1 cache, which has room for 8.
constexpr size_t float_tokens(size_t k) {
  constexpr size_t kPage = 4096, kRows = 8;
  return k * sizeof(float) % kPage == 0 && kFloatTokens > kRows ? kFloatTokens / 2 : kFloatTokens;
}

/// Computes y[panels][count][8] for kPanels consecutive panels and `count` tokens: first in tiles
/// of float_tokens(K) tokens (more with fewer panels), then two tokens at a time, then one.
template <WeightKind Kind, size_t K, size_t kPanels>
LLMC_NOINLINE inline void float_panels(const uint8_t* panel, const float* x, size_t stride,
                                       size_t count, float* y) {
  constexpr size_t kPanelBytes = weight_panel_bytes(Kind, K);
  constexpr size_t kTile =
      float_tokens(K) * float_registers(kFloatPanels) / float_registers(kPanels);
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

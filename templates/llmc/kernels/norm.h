#pragma once

#include "llmc/kernels/stage.h"

/// RMS norm:    x / sqrt(mean(x^2) + eps) * weight   (Zhang & Sennrich 2019)
/// Layer norm:  (x - mean) / sqrt(variance + eps) * weight + bias   (Ba et al. 2016)
namespace llmc {
inline namespace LLMC_ISA {

/// Returns 1 / sqrt(x) in every lane.
LLMC_INLINE F32x8 inverse_root(float x) {
  float root[8];
  store(root, splat(1.0f) / sqrt(splat(x)));
  return splat(root[0]);
}

/// Stores eight results of a norm at y[i], plus the residual unless it is nullptr.
template <size_t K>
LLMC_INLINE void store_normalized(float* y, size_t i, F32x8 v, const float* residual) {
  store_row<K>(y, i, residual == nullptr ? v : load_row<K>(residual, i) + v);
}

/// Normalizes one row. Lane j adds the squares of x[j], x[j+8], … in this order; then reduce_add()
/// adds the lanes. y may be x or residual; residual may be nullptr.
template <size_t K>
LLMC_INLINE void rms_norm_row(const float* x, const float* weight, float eps, float* y,
                              const float* residual = nullptr) {
  F32x8 squares = zero_f32();
  for (size_t i = 0; i < K; i += 8) {
    const F32x8 v = load_row<K>(x, i);
    squares = fma(v, v, squares);
  }
  const F32x8 inverse = inverse_root(reduce_add(squares) / static_cast<float>(K) + eps);
  for (size_t i = 0; i < K; i += 8) {
    const F32x8 v = (load_row<K>(x, i) * inverse) * load_row<K>(weight, i);
    store_normalized<K>(y, i, v, residual);
  }
}

/// Normalizes one row. The sum of x and the sum of the squares of x - mean have the same order as
/// in the RMS norm. `bias` may be nullptr. The rules for y and residual are the same, too.
template <size_t K>
LLMC_INLINE void layer_norm_row(const float* x, const float* weight, const float* bias, float eps,
                                float* y, const float* residual = nullptr) {
  F32x8 sum = zero_f32(), squares = zero_f32();
  for (size_t i = 0; i < K; i += 8) sum = sum + load_row<K>(x, i);
  const F32x8 mean = splat(reduce_add(sum) / static_cast<float>(K));
  for (size_t i = 0; i < K; i += 8) {
    F32x8 v = load_row<K>(x, i) - mean;
    if (K % 8 != 0 && K - i < 8) v = select(lanes_below(K - i), v, zero_f32());
    squares = fma(v, v, squares);
  }
  const F32x8 inverse = inverse_root(reduce_add(squares) / static_cast<float>(K) + eps);
  for (size_t i = 0; i < K; i += 8) {
    const F32x8 v = ((load_row<K>(x, i) - mean) * inverse) * load_row<K>(weight, i);
    store_normalized<K>(y, i, bias == nullptr ? v : v + load_row<K>(bias, i), residual);
  }
}

/// Normalizes x f32[tokens][kParts][K] to y. Each part is a separate row with the same weight
/// f32[K]. `residual` has the same shape.
template <size_t K, size_t kParts = 1>
inline void rms_norm(const KernelContext& context, const float* x, const float* weight, float eps,
                     float* y, const float* residual = nullptr) {
  for_each_token(context, [=](size_t t) {
    for (size_t row = t * kParts; row < (t + 1) * kParts; ++row) {
      rms_norm_row<K>(x + row * K, weight, eps, y + row * K,
                      residual == nullptr ? nullptr : residual + row * K);
    }
  });
}
template <size_t K, size_t kParts = 1>
inline void layer_norm(const KernelContext& context, const float* x, const float* weight,
                       const float* bias, float eps, float* y, const float* residual = nullptr) {
  for_each_token(context, [=](size_t t) {
    for (size_t row = t * kParts; row < (t + 1) * kParts; ++row) {
      layer_norm_row<K>(x + row * K, weight, bias, eps, y + row * K,
                        residual == nullptr ? nullptr : residual + row * K);
    }
  });
}

}  // namespace LLMC_ISA
}  // namespace llmc

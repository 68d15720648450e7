#pragma once

#include "llmc/kernels/stage.h"

/// y = x / sqrt(mean(x^2) + eps) * weight   (Zhang & Sennrich 2019)
namespace llmc {
inline namespace LLMC_ISA {

/// One row. Lane j sums the squares of x[j], x[j+8], … in that order, then the tree of reduce_add.
/// y may be x.
template <size_t K>
LLMC_INLINE void rms_norm_row(const float* x, const float* weight, float eps, float* y) {
  F32x8 squares = zero_f32();
  for (size_t i = 0; i < K; i += 8) {
    const F32x8 v = load_row<K>(x, i);
    squares = fma(v, v, squares);
  }
  const float mean = reduce_add(squares) / static_cast<float>(K);
  float root[8];
  store(root, splat(1.0f) / sqrt(splat(mean + eps)));
  const F32x8 inverse = splat(root[0]);
  for (size_t i = 0; i < K; i += 8) {
    store_row<K>(y, i, (load_row<K>(x, i) * inverse) * load_row<K>(weight, i));
  }
}

/// x, y f32[tokens][K]; y may be x.
template <size_t K>
inline void rms_norm(const Stage& stage, const float* x, const float* weight, float eps, float* y) {
  for_each_token(stage, [=](size_t t) { rms_norm_row<K>(x + t * K, weight, eps, y + t * K); });
}

}  // namespace LLMC_ISA
}  // namespace llmc

#pragma once

#include "llmc/kernels/stage.h"
#include "llmc/quant/hadamard.h"

/// The transform H . D of a group of n = 32, 64, 128 or 256 numbers:
///
///   D  negates the elements i with bits 3 and 4 of i set; then, for n >= 128, those with the upper
///      two bits of i set
///   H  for the distances h = n / 2, n / 4, ..., 1: replaces each pair (u, v) of elements i and
///      i + h, where bit h of i is 0, by (u + v, u - v)
namespace llmc {
inline namespace LLMC_ISA {

/// Applies H across kCount vectors. With kCount >= 4, first negates the vectors whose index has the
/// upper two bits set, by exchanging their sums and differences in the first step.
template <size_t kCount>
LLMC_INLINE void butterflies(F32x8 (&v)[kCount]) {
  for (size_t distance = kCount / 2; distance > 0; distance /= 2) {
    for (size_t i = 0; i < kCount; ++i) {
      if ((i & distance) != 0) continue;
      const bool negated = kCount >= 4 && distance == kCount / 2 && i >= kCount / 4;
      const F32x8 sum = v[i] + v[i + distance], difference = v[i] - v[i + distance];
      v[i] = negated ? difference : sum;
      v[i + distance] = negated ? sum : difference;
    }
  }
}

/// Stores the transform of x[n] in y[n]. Not inlined, to limit the code size of models with many
/// products.
template <size_t n>
LLMC_NOINLINE inline void hadamard(const float* x, float* y) {
  static_assert(n == 32 || n == 64 || n == 128 || n == 256);
  constexpr size_t kPart = 32, kParts = n / kPart, kVectors = kPart / 8;
  if constexpr (kParts > 1) {
    for (size_t i = 0; i < kPart; i += 8) {
      F32x8 v[kParts];
      for (size_t p = 0; p < kParts; ++p) v[p] = load(x + p * kPart + i);
      butterflies(v);
      for (size_t p = 0; p < kParts; ++p) store(y + p * kPart + i, v[p]);
    }
    x = y;
  }
  for (size_t p = 0; p < n; p += kPart) {
    F32x8 v[kVectors];
    for (size_t i = 0; i < kVectors; ++i) v[i] = load(x + p + 8 * i);
    butterflies(v);
    for (size_t i = 0; i < kVectors; ++i)
      store(y + p + 8 * i, butterfly<1>(butterfly<2>(butterfly<4>(v[i]))));
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc

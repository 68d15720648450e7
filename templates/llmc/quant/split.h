#pragma once

#include "llmc/quant/coded.h"

/// Error bounds for products that use only the upper four bits u of the codes of a split format
/// (quant/coded.h). They replace the lower two bits l by their mean 1.5, so that a code
/// 4u + l - 32 becomes 4u - 30.5 = 4 (u - 7.625).
namespace llmc {
inline namespace LLMC_ISA {

/// Value that is subtracted from the upper bits. A sum of u a - 7.625 a over a block is exact in a
/// float.
inline constexpr float kUpperCentre = 7.625f;

/// Returns T such that |p - 4 q| <= T |x|. p is the product of a row, and q the product of its
/// upper bits, both with the roundings of the kernels. |x| is the Euclidean norm of the quantized
/// activations. By Cauchy-Schwarz the exact difference is at most |lower| |x|. Each of the two sums
/// rounds at most 8 + super_count(K) + 1 times, and each rounding changes it by at most
/// 2^-24 |weights| |x|, up to terms of second order. T allows for 7 more roundings, which cover
/// these terms and the two roundings of the comparison.
inline float split_bound(CodedFormat f, const uint8_t* panel, size_t k_total, size_t row) {
  double lower = 0, whole = 0, upper = 0;
  for (size_t k = 0; k < k_total; ++k) {
    const double scale = static_cast<double>(coded_scale(f, panel, k_total, row, k / f.block));
    const int stored = coded_code(f, panel, k_total, row, k) + kZeroPoint6;
    const double l = scale * ((stored & 3) - 1.5), w = scale * (stored - kZeroPoint6), u = w - l;
    lower += l * l;
    whole += w * w;
    upper += u * u;
  }
  const double rounding = static_cast<double>(super_count(k_total) + 16) * 0x1p-24;
  const double bound =
      __builtin_sqrt(lower) + rounding * (__builtin_sqrt(whole) + __builtin_sqrt(upper));
  return static_cast<float>(bound * (1 + 0x1p-20));
}
/// Returns the smallest f16 that is not less than `bound`; it may be infinity.
inline uint16_t split_bound_f16(float bound) {
  const uint16_t nearest = f32_to_f16(bound);
  return f16_to_f32(nearest) < bound ? static_cast<uint16_t>(nearest + 1) : nearest;
}

/// Computes and stores the bounds of a panel whose codes and scales are already set.
inline void split_set_bounds(CodedFormat f, uint8_t* panel, size_t k_total) {
  for (size_t row = 0; row < kPanelRows; ++row) {
    store_u16(panel + split_bound_offset(f, k_total) + row * sizeof(uint16_t),
              split_bound_f16(split_bound(f, panel, k_total, row)));
  }
}

}  // namespace LLMC_ISA
}  // namespace llmc

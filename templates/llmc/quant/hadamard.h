#pragma once

#include "llmc/quant/layout.h"

/// The Walsh-Hadamard transform of the inputs of quantized products. A superblock of activations
/// has one scale, so a few large elements would leave the others little of the precision of int8.
/// The transform spreads each element over a group of n elements, which then have similar
/// magnitudes. The weights are transformed when they are packed, which cancels the transform:
///
///     W . x = (W . T / 2^(l - e)) . (T^t . x / 2^e),  T . T^t = n I, n = 2^l, e = floor(l / 2)
///
/// T^t = H . D, where H has elements +-1. D changes signs, so that a constant input is spread, too.
/// kernels/hadamard.h defines both. All groups of a superblock have the same size n.
namespace llmc {
inline namespace LLMC_ISA {

/// The basis of a matrix's columns: kPlain is the model's, W; kHadamard is the transformed, W . T.
enum class Basis : uint8_t { kPlain, kHadamard };

/// Returns the group size n of a superblock: the largest power of two that divides its number of
/// columns. If that is less than 32, returns 1: the columns are not transformed.
constexpr size_t hadamard_size(size_t k_total, size_t super) {
  const size_t left = k_total - super * kSuper;
  const size_t columns = left < kSuper ? left : kSuper;
  const size_t power = columns & (~columns + 1);
  return power < kBlock ? 1 : power;
}
/// Returns 2^-e for groups of n elements.
constexpr float hadamard_scale(size_t n) {
  float scale = 1;
  for (; n >= 4; n /= 4) scale *= 0.5f;
  return scale;
}

}  // namespace LLMC_ISA
}  // namespace llmc

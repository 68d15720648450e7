#pragma once

#include "llmc/quant/layout.h"

/// The Walsh-Hadamard transform of the inputs of quantized products. A superblock of activations
/// has one scale, so a few large elements would leave the others little of the precision of int8.
/// The transform spreads each element over a group of n, whose elements then have similar
/// magnitudes. It is undone by the weights, which are transformed when they are packed:
///
///     W . x = (W . T / 2^(l - e)) . (T^t . x / 2^e),  T . T^t = n = 2^l, e = l / 2 rounded down
///
/// T^t = H . D: H has elements +-1, and D changes signs, so that a constant input is spread, too.
/// kernels/hadamard.h defines both. The columns of a superblock are groups of equal size.
namespace llmc {
inline namespace LLMC_ISA {

/// The basis of a matrix' columns: kPlain is that of the model, kHadamard that of W . T.
enum class Basis : uint8_t { kPlain, kHadamard };

/// Returns n of a superblock: the largest power of two that divides its number of columns; 1, if
/// that is less than 32: such columns are not transformed.
constexpr size_t hadamard_size(size_t k_total, size_t super) {
  const size_t left = k_total - super * kSuper;
  const size_t columns = left < kSuper ? left : kSuper;
  const size_t power = columns & (~columns + 1);
  return power < kBlock ? 1 : power;
}
/// Returns 2^-e of groups of n.
constexpr float hadamard_scale(size_t n) {
  float scale = 1;
  for (; n >= 4; n /= 4) scale *= 0.5f;
  return scale;
}

}  // namespace LLMC_ISA
}  // namespace llmc

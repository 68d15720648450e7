#pragma once

#include "llmc/half.h"

/// Activation functions in f32, for loops that vectorize: the polynomials of llmc/math.h, without
/// branches and fused multiplications, which not every target has. docs/functions.md has the
/// errors.
namespace llmc {
inline namespace LLMC_ISA {
namespace function {
namespace single {

/// Adding this constant rounds |x| < 2^22 to an integer, ties to even, and leaves the integer in
/// the low bits.
inline constexpr float kRoundingMagic = 12582912.0f;  // 1.5 * 2^23

/// Returns e^x for -87 <= x <= 88, 0 for smaller and +inf for larger x: 2^n e^r, where |r| <= 0.35
/// and e^r = 1 + r + r^2 P(r), with P of degree 5 (Cephes, Moshier).
LLMC_INLINE float exp(float x) {
  const float shifted = x * 1.44269504f + kRoundingMagic;
  const float n = shifted - kRoundingMagic;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * (r * r) + r) + 1.0f;
  const float y = bits_float(float_bits(p) + (float_bits(shifted) << 23));
  return x < -87.0f ? 0.0f : x > 88.0f ? __builtin_huge_valf() : y;
}

LLMC_INLINE float silu(float x) {
  return x / (1.0f + exp(-x));
}

/// x (1 + tanh u) / 2 = x / (1 + e^-2u),  u = sqrt(2/pi) (x + 0.044715 x^3)
LLMC_INLINE float gelu_tanh(float x) {
  return x / (1.0f + exp(x * (-0.0713548163f * (x * x) - 1.59576912f)));
}

/// x (1 + erf(t)) / 2, t = x / sqrt 2. erf(t) is an odd polynomial of degree 11 for |t| <= 475/512,
/// otherwise 1 - e^P(|t|) with the sign of t, where P has degree 7. Then 1 + erf(t) is e^P for
/// negative t, without cancellation.
LLMC_INLINE float gelu(float x) {
  const float scaled = x * 0.707106781f;
  const float t = bits_float(float_bits(scaled) & 0x7fffffffu), s = t * t;
  float p = -1.72853470e-5f * t + 3.83197126e-4f;
  p = p * s + (-3.88396438e-3f * t + 2.42546219e-2f);
  p = p * t - 1.06777877e-1f;
  p = p * t - 6.34846687e-1f;
  p = p * t - 1.28717512e-1f;
  p = p * t - t;
  const float tail = 0.5f * exp(p);
  float q = -5.96761703e-4f;
  q = q * s + 4.99119423e-3f;
  q = q * s - 2.67681349e-2f;
  q = q * s + 1.12819925e-1f;
  q = q * s - 3.76125336e-1f;
  q = q * s + 1.28379166e-1f;
  const float middle = 0.5f + 0.5f * (q * scaled + scaled);
  return x * (t > 0.927734375f ? (x < 0.0f ? tail : 1.0f - tail) : middle);
}

}  // namespace single
}  // namespace function
}  // namespace LLMC_ISA
}  // namespace llmc

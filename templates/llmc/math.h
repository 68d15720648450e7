#pragma once

#include "llmc/half.h"
#include "llmc/simd/vec.h"

/// Elementary functions that use only correctly rounded operations, so that every target computes
/// the same bits. docs/numerics.md has the error bounds.
namespace llmc {
inline namespace LLMC_ISA {

/// Adding this constant rounds |x| < 2^22 to the nearest integer, ties to even: the last bit of the
/// sum has the weight 1.
inline constexpr float kRoundingMagic = 12582912.0f;

LLMC_INLINE I32x8 round_to_i32(F32x8 x) {
  return bits(x + splat(kRoundingMagic)) - splat_i32(0x4b400000);
}

/// Returns e^r for r = x - n ln 2 with an integer n and |r| <= 0.35. To keep r accurate, ln 2 is
/// split into two constants. e^r = 1 + r + r^2 P(r), where P has degree 5 (Cephes, Moshier).
template <class V>
LLMC_INLINE V exp_reduced(V x, V n) {
  V r = fma(n, splat_to<V>(-0.693359375f), x);
  r = fma(n, splat_to<V>(2.12194440e-4f), r);
  V p = splat_to<V>(1.9875691500e-4f);
  p = fma(p, r, splat_to<V>(1.3981999507e-3f));
  p = fma(p, r, splat_to<V>(8.3334519073e-3f));
  p = fma(p, r, splat_to<V>(4.1665795894e-2f));
  p = fma(p, r, splat_to<V>(1.6666665459e-1f));
  p = fma(p, r, splat_to<V>(5.0000001201e-1f));
  return fma(p, r * r, r) + splat_to<V>(1.0f);
}

/// e^x. It is 0 below -104 and +inf above 89. Subnormal results are rounded once.
LLMC_INLINE F32x8 exp(F32x8 x) {
  const F32x8 shifted = fma(x, splat(1.44269504f), splat(kRoundingMagic));
  F32x8 p = exp_reduced(x, shifted - splat(kRoundingMagic));
  // Multiply by 2^n in two factors: n is in -150..128, which exceeds the range of one exponent.
  const I32x8 whole = bits(shifted) - splat_i32(0x4b400000);
  const I32x8 half = shift_right_arithmetic<1>(whole);
  const I32x8 bias = splat_i32(127);
  p = p * from_bits(shift_left<23>(half + bias));
  p = p * from_bits(shift_left<23>((whole - half) + bias));
  p = select(less(x, splat(-104.0f)), zero_f32(), p);
  return select(less(splat(89.0f), x), from_bits(splat_i32(0x7f800000)), p);
}

/// e^x for x <= 0, used by softmax. It is 0 below -87, where exp() is about 10^-38, so that one
/// addition to the exponent field is sufficient for scaling. Argument reduction and polynomial are
/// the same as in exp().
template <class V>
LLMC_INLINE V exp_nonpositive(V x) {
  const V shifted = fma(x, splat_to<V>(1.44269504f), splat_to<V>(kRoundingMagic));
  const V p = exp_reduced(x, shifted - splat_to<V>(kRoundingMagic));
  // The low bits of `shifted` are n; the bits above them are shifted out.
  return zero_below(x, -87.0f, add_exponent(p, shifted));
}

/// The same two functions for one float.
LLMC_INLINE float exp(float x) {
  float lane[8];
  store(lane, exp(splat(x)));
  return lane[0];
}
LLMC_INLINE float exp_nonpositive(float x) {
  float lane[8];
  store(lane, exp_nonpositive<F32x8>(splat(x)));
  return lane[0];
}

/// 1 / (1 + e^-x)
LLMC_INLINE F32x8 sigmoid(F32x8 x) {
  return splat(1.0f) / (splat(1.0f) + exp(zero_f32() - x));
}

/// x / (1 + e^-x)
LLMC_INLINE F32x8 silu(F32x8 x) {
  return x / (splat(1.0f) + exp(zero_f32() - x));
}

/// Returns the magnitude of `v` with the sign of `x`.
LLMC_INLINE F32x8 with_sign_of(F32x8 v, F32x8 x) {
  const I32x8 magnitude = splat_i32(0x7fffffff);
  return from_bits((bits(v) & magnitude) |
                   (bits(x) & splat_i32(static_cast<int32_t>(0x80000000u))));
}
LLMC_INLINE F32x8 absolute(F32x8 x) {
  return from_bits(bits(x) & splat_i32(0x7fffffff));
}

/// tanh x: an odd polynomial of degree 11 for |x| < 0.625 (Cephes, Moshier), otherwise
/// 1 - 2 / (e^(2|x|) + 1) with the sign of x.
LLMC_INLINE F32x8 tanh(F32x8 x) {
  const F32x8 magnitude = absolute(x), square = x * x;
  F32x8 p = splat(-5.70498872745e-3f);
  p = fma(p, square, splat(2.06390887954e-2f));
  p = fma(p, square, splat(-5.37397155531e-2f));
  p = fma(p, square, splat(1.33314422036e-1f));
  p = fma(p, square, splat(-3.33332819422e-1f));
  const F32x8 small = fma(p * square, x, x);
  const F32x8 large = splat(1.0f) - splat(2.0f) / (exp(magnitude + magnitude) + splat(1.0f));
  return select(less(magnitude, splat(0.625f)), small, with_sign_of(large, x));
}

/// erf x: an odd polynomial of degree 11 for |x| <= 475/512, otherwise 1 - e^P(|x|) with the sign
/// of x, where P has degree 7.
LLMC_INLINE F32x8 erf(F32x8 x) {
  const F32x8 t = absolute(x), s = x * x;
  F32x8 p = fma(splat(-1.72853470e-5f), t, splat(3.83197126e-4f));
  p = fma(p, s, fma(splat(-3.88396438e-3f), t, splat(2.42546219e-2f)));
  p = fma(p, t, splat(-1.06777877e-1f));
  p = fma(p, t, splat(-6.34846687e-1f));
  p = fma(p, t, splat(-1.28717512e-1f));
  p = fma(p, t, zero_f32() - t);
  const F32x8 large = splat(1.0f) - exp(p);
  F32x8 q = splat(-5.96761703e-4f);
  q = fma(q, s, splat(4.99119423e-3f));
  q = fma(q, s, splat(-2.67681349e-2f));
  q = fma(q, s, splat(1.12819925e-1f));
  q = fma(q, s, splat(-3.76125336e-1f));
  q = fma(q, s, splat(1.28379166e-1f));
  return select(less(splat(0.927734375f), t), with_sign_of(large, x), fma(q, x, x));
}

/// x (1 + erf(x / sqrt 2)) / 2   (Hendrycks & Gimpel 2016)
LLMC_INLINE F32x8 gelu(F32x8 x) {
  return (splat(0.5f) * x) * (splat(1.0f) + erf(x * splat(0.707106781f)));
}

/// x (1 + tanh u) / 2 = x / (1 + e^-2u),  u = sqrt(2/pi) (x + 0.044715 x^3)
LLMC_INLINE F32x8 gelu_tanh(F32x8 x) {
  const F32x8 u2 = x * fma(x * x, splat(0.0713548163f), splat(1.59576912f));
  return x / (splat(1.0f) + exp(zero_f32() - u2));
}

struct SinCos {
  float sin, cos;
};

/// Returns sin x and cos x for |x| < 2^22. Larger x, infinities and NaN give NaN. Computes in
/// double, with additions and multiplications only, and rounds once at the end. x = n pi/2 + r,
/// where pi/2 is split into its first 33 bits, whose product with n is exact, and the rest. The
/// minimax polynomials for |r| <= pi/4 are those of FreeBSD's k_sinf.c and k_cosf.c, with degrees 9
/// and 8.
inline SinCos sincos(float x) {
  const double wide = static_cast<double>(x);
  if (!(wide < 4194304.0 && wide > -4194304.0))
    return {bits_float(0x7fc00000u), bits_float(0x7fc00000u)};
  const double magic = 6755399441055744.0;  // 1.5 * 2^52
  const double n = (wide * 6.36619772367581382433e-01 + magic) - magic;
  const int32_t quadrant = static_cast<int32_t>(n) & 3;
  const double r = (wide - n * 1.57079632673412561417e+00) - n * 6.07710050650619224932e-11;
  const double z = r * r;
  const double s = r + r * z *
                           (-0.166666666416265235595 +
                            z * (0.0083333293858894631756 + z * (-0.000198393348360966317347 +
                                                                 z * 0.0000027183114939898219064)));
  const double c =
      1.0 + z * (-0.499999997251031003120 +
                 z * (0.0416666233237390631894 +
                      z * (-0.00138867637746099294692 + z * 0.0000243904487962774090654)));
  const double sine = (quadrant & 1) != 0 ? c : s;
  const double cosine = (quadrant & 1) != 0 ? s : c;
  return {static_cast<float>((quadrant & 2) != 0 ? -sine : sine),
          static_cast<float>(quadrant == 1 || quadrant == 2 ? -cosine : cosine)};
}

}  // namespace LLMC_ISA
}  // namespace llmc

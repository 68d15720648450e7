#pragma once

#include "llmc/function/types.h"

/// Elementary functions in double. They use only correctly rounded operations, so that every target
/// computes the same bits, and no branches, so that loops over them vectorize. The f32 functions
/// round their results once; the error is at most 0.51 ulp. docs/functions.md has the error bounds.
namespace llmc {
inline namespace LLMC_ISA {
namespace function {
namespace wide {

LLMC_INLINE uint64_t bits(double x) {
  return __builtin_bit_cast(uint64_t, x);
}
LLMC_INLINE double from_bits(uint64_t x) {
  return __builtin_bit_cast(double, x);
}
inline constexpr double kInfinity = __builtin_huge_val();
inline constexpr double kNaN = __builtin_nan("");

/// Adding this constant rounds |x| < 2^51 to an integer, ties to even, and leaves the integer in
/// the low bits.
inline constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52

LLMC_INLINE double copy_sign(double magnitude, double sign) {
  return from_bits((bits(magnitude) & ~(1ull << 63)) | (bits(sign) & (1ull << 63)));
}
LLMC_INLINE double absolute(double x) {
  return from_bits(bits(x) & ~(1ull << 63));
}
/// Returns 2^n for the integer n stored as kMagic + n, -1022 <= n <= 1023.
LLMC_INLINE double power_of_two(double magic_plus_n) {
  return from_bits((bits(magic_plus_n) + 1023) << 52);
}

/// Returns (e^r - 1 - r) / r^2 for |r| <= 0.347, from the Taylor series of e^r up to r^kDegree.
template <int kDegree>
LLMC_INLINE double exp_series(double r) {
  constexpr double kInverse[] = {1.0,
                                 1.0,
                                 1.0 / 2,
                                 1.0 / 6,
                                 1.0 / 24,
                                 1.0 / 120,
                                 1.0 / 720,
                                 1.0 / 5040,
                                 1.0 / 40320,
                                 1.0 / 362880,
                                 1.0 / 3628800,
                                 1.0 / 39916800,
                                 1.0 / 479001600,
                                 1.0 / 6227020800.0};
  double p = kInverse[kDegree];
#pragma clang loop unroll(full)
  for (int i = kDegree - 1; i >= 2; --i) p = p * r + kInverse[i];
  return p;
}
/// Returns e^r - 1 for |r| <= 0.347.
template <int kDegree>
LLMC_INLINE double expm1_reduced(double r) {
  return r + (r * r) * exp_series<kDegree>(r);
}

inline constexpr double kLog2E = 1.44269504088896338700;
/// The 21 low bits of kLn2High are 0, so that n * kLn2High is exact.
inline constexpr double kLn2High = 6.93147180369123816490e-01;
inline constexpr double kLn2Low = 1.90821492927058770002e-10;

/// Returns e^x. kDegree is 13 for double results, and 8 if the result is rounded to float.
template <int kDegree>
LLMC_INLINE double exp(double x) {
  x = x < -746.0 ? -746.0 : x;
  x = x > 710.0 ? 710.0 : x;
  const double shifted = x * kLog2E + kMagic;
  const double n = shifted - kMagic;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  const double p = expm1_reduced<kDegree>(r) + 1.0;
  // 2^n in two factors, because n ranges from -1076 to 1024.
  const double half = n * 0.5 + kMagic;
  const double rest = (n - (half - kMagic)) + kMagic;
  return p * power_of_two(half) * power_of_two(rest);
}

/// Returns e^x - 1 for |x| <= 700, with a small relative error also near 0, as 2^n (e^r - 1) +
/// (2^n - 1), where the second term is exact for |n| <= 53.
template <int kDegree>
LLMC_INLINE double expm1(double x) {
  const double shifted = x * kLog2E + kMagic;
  const double n = shifted - kMagic;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  const double scale = power_of_two(shifted);
  return scale * expm1_reduced<kDegree>(r) + (scale - 1.0);
}

/// The decomposition x = m * 2^k with m in [sqrt(1/2), sqrt(2)), for positive finite x.
struct Split {
  double m, k;
};
LLMC_INLINE Split split_exponent(double x) {
  const bool tiny = x < 0x1p-1022;
  x = tiny ? x * 0x1p54 : x;
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcdu;
  const uint64_t biased = bits(x) - kRootHalf + (uint64_t{1024} << 52);
  const uint64_t k = biased >> 52;  // + 1024
  const double number = from_bits(k | bits(0x1p52)) - 0x1p52;
  const double m = from_bits(bits(x) - ((k - 1024) << 52));
  return {m, number - (tiny ? 1024.0 + 54.0 : 1024.0)};
}

/// Returns ln x. log(1 + f) = f - (f^2/2 - s (f^2/2 + R(s^2))), s = f / (2 + f), as in FreeBSD's
/// e_log.c.
LLMC_INLINE double log(double x) {
  const Split parts = split_exponent(x);
  const double f = parts.m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  double r = 1.479819860511658591e-01;
  r = r * z + 1.531383769920937332e-01;
  r = r * z + 1.818357216161805012e-01;
  r = r * z + 2.222219843214978396e-01;
  r = r * z + 2.857142874366239149e-01;
  r = r * z + 3.999999999940941908e-01;
  r = r * z + 6.666666666666735130e-01;
  r = r * z;
  const double half = 0.5 * f * f;
  const double y = parts.k * kLn2High - ((half - (s * (half + r) + parts.k * kLn2Low)) - f);
  const double special = x == 0.0 ? -kInfinity : x == kInfinity ? kInfinity : kNaN;
  return x > 0.0 && x < kInfinity ? y : special;
}

template <int kDegree>
LLMC_INLINE double tanh(double x) {
  double twice = 2.0 * absolute(x);
  twice = twice > 50.0 ? 50.0 : twice;
  const double e = expm1<kDegree>(twice);
  return copy_sign(e / (e + 2.0), x);
}

template <int kDegree>
LLMC_INLINE double sigmoid(double x) {
  return 1.0 / (1.0 + exp<kDegree>(-x));
}

/// Returns erf x. With a = |x|, it is x P(x^2) for a < 1, otherwise 1 - e^(-a^2) Q(t) / (1 + 2 a)
/// with the sign of x, where t = (a - 2) / (a + 2). P and Q interpolate at Chebyshev nodes. The
/// relative error of P is 2^-62. The error of Q is 2^-49 relative to erfc a, which is at most 0.16.
template <int kDegree>
LLMC_INLINE double erf(double x) {
  constexpr double kSmall[] = {
      1.1283791670955126,      -0.3761263890318375,     0.11283791670954879,
      -0.026866170645076792,   0.0052239776248180145,   -0.000854832698083379,
      0.0001205533111164271,   -1.4925595266831182e-05, 1.6461000484121368e-06,
      -1.6350312701054695e-07, 1.4659775274047436e-08,  -1.1372848856791674e-09,
      5.957176147748911e-11};
  constexpr double kLarge[] = {
      1.2769783815525286,      -0.09276382658579271,   -0.16603039761519495,
      0.16405128004388655,     -0.054220001006539405,  -0.008034015751627726,
      0.008722654871778377,    0.0012713574347262785,  -0.001456846512101521,
      -0.00045458837742862207, 0.00020689311206916543, 0.00015259157270933288,
      -5.6084303298366125e-06, -3.958004354569847e-05, -6.186196662948258e-07};
  const double a = absolute(x);
  const double z = a * a;
  double p = kSmall[12];
#pragma clang loop unroll(full)
  for (int i = 11; i >= 0; --i) p = p * z + kSmall[i];
  const double small = x * p;
  const double b = a > 6.0 ? 6.0 : a;
  const double t = (b - 2.0) / (b + 2.0);
  double q = kLarge[14];
#pragma clang loop unroll(full)
  for (int i = 13; i >= 0; --i) q = q * t + kLarge[i];
  const double large = 1.0 - exp<kDegree>(-(b * b)) * q / (1.0 + 2.0 * b);
  return a < 1.0 ? small : x != x ? x : copy_sign(large, x);
}

/// Rounds to an integer, ties to even. Keeps the sign of zero.
LLMC_INLINE double round_even(double x) {
  const double a = absolute(x);
  const double rounded = (a + 0x1p52) - 0x1p52;
  return a < 0x1p52 ? copy_sign(rounded, x) : x;
}
LLMC_INLINE double floor(double x) {
  const double r = round_even(x);
  return copy_sign(r > x ? r - 1.0 : r, x);
}
LLMC_INLINE double ceil(double x) {
  const double r = round_even(x);
  return copy_sign(r < x ? r + 1.0 : r, x);
}

/// sin r and cos r for |r| <= 1, by Taylor series. The first omitted terms are below 2^-65.
LLMC_INLINE double sin_reduced(double r) {
  const double z = r * r;
  double p = -1.0 / 121645100408832000.0;
  p = p * z + 1.0 / 355687428096000.0;
  p = p * z - 1.0 / 1307674368000.0;
  p = p * z + 1.0 / 6227020800.0;
  p = p * z - 1.0 / 39916800.0;
  p = p * z + 1.0 / 362880.0;
  p = p * z - 1.0 / 5040.0;
  p = p * z + 1.0 / 120.0;
  p = p * z - 1.0 / 6.0;
  return r + r * z * p;
}
LLMC_INLINE double cos_reduced(double r) {
  const double z = r * r;
  double p = 1.0 / 2432902008176640000.0;
  p = p * z - 1.0 / 6402373705728000.0;
  p = p * z + 1.0 / 20922789888000.0;
  p = p * z - 1.0 / 87178291200.0;
  p = p * z + 1.0 / 479001600.0;
  p = p * z - 1.0 / 3628800.0;
  p = p * z + 1.0 / 40320.0;
  p = p * z - 1.0 / 720.0;
  p = p * z + 1.0 / 24.0;
  return 1.0 - (0.5 * z - z * z * p);
}

}  // namespace wide
}  // namespace function
}  // namespace LLMC_ISA
}  // namespace llmc

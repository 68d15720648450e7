#pragma once

#include "llmc/function/math.h"

/// sin and cos for arguments of any size, and pow. The argument reduction of sin and cos uses as
/// many bits of 2/pi as the exponent of the argument requires (Payne & Hanek 1983).
namespace llmc {
inline namespace LLMC_ISA {
namespace function {
namespace wide {

/// 2/pi = 0.b1 b2 b3 … in binary, 1280 bits.
inline constexpr uint64_t kTwoOverPi[20] = {
    0xa2f9836e4e441529u, 0xfc2757d1f534ddc0u, 0xdb6295993c439041u, 0xfe5163abdebbc561u,
    0xb7246e3a424dd2e0u, 0x06492eea09d1921cu, 0xfe1deb1cb129a73eu, 0xe88235f52ebb4484u,
    0xe99c7026b45f7e41u, 0x3991d639835339f4u, 0x9c845f8bbdf9283bu, 0x1ff897ffde05980fu,
    0xef2f118b5a0a6d1fu, 0x6d367ecf27cb09b7u, 0x4f463f669e5fea2du, 0x7527bac7ebe5f17bu,
    0x3d0739f78a5292eau, 0x6bfb5fb11f8d5d08u, 0x56033046fc7b6babu, 0xf0cfbc209af4361du};

/// Returns 64 bits of 2/pi, from b_first on. Bits before b1 are 0.
constexpr uint64_t bits_of_two_over_pi(int first) {
  if (first <= -63) return 0;
  if (first < 1) return kTwoOverPi[0] >> (1 - first);
  const int word = (first - 1) / 64, shift = (first - 1) % 64;
  if (shift == 0) return kTwoOverPi[word];
  return kTwoOverPi[word] << shift | kTwoOverPi[word + 1] >> (64 - shift);
}

constexpr double two_to(int n) {
  double value = 1;
  for (; n > 0; --n) value *= 2;
  for (; n < 0; ++n) value /= 2;
  return value;
}

/// 2^q 2/pi mod 4 for each exponent field of a float m 2^q with an integer m < 2^24. `high`
/// contains the first 29 bits, whose product with m is exact, and `low` the next 53 bits.
struct QuarterTurns {
  double high[256], low[256];
};
constexpr QuarterTurns make_quarter_turns() {
  QuarterTurns table = {};
  for (int field = 0; field < 256; ++field) {
    const int q = (field == 0 ? 1 : field) - 150;
    const int first = q - 1 < 1 ? 1 : q - 1;  // b_first has a weight of 2 or less
    const uint64_t high = bits_of_two_over_pi(first) >> 35;
    const uint64_t low = bits_of_two_over_pi(first + 29) >> 11;
    table.high[field] = static_cast<double>(high) * two_to(q - first - 28);
    table.low[field] = static_cast<double>(low) * two_to(q - first - 28 - 53);
  }
  table.high[255] = kNaN;  // infinities and NaN
  return table;
}
inline constexpr QuarterTurns kQuarterTurns = make_quarter_turns();

/// Returns sin(x + turn pi/2), where `turn` is 0 (sine) or 1 (cosine).
LLMC_INLINE double sin_of_float(float x, uint64_t turn) {
  const uint32_t image = float_bits(x), field = image >> 23 & 0xffu;
  const uint32_t hidden = field == 0 ? 0u : 0x00800000u;
  const double m = static_cast<double>(static_cast<int32_t>((image & 0x007fffffu) | hidden));
  const double high = m * kQuarterTurns.high[field];
  const double shifted = high + kMagic;
  const double r = (high - (shifted - kMagic)) + m * kQuarterTurns.low[field];
  // Apply the sign of x: sin(-x) = -sin(x) for sin, sin(-x + pi/2) = sin(x + pi/2) for cos.
  const uint64_t quadrant = bits(shifted) + turn;
  const double angle = r * 1.57079632679489661923;
  const double value = (quadrant & 1) != 0 ? cos_reduced(angle) : sin_reduced(angle);
  const uint64_t negative =
      (quadrant >> 1 & 1) ^ (turn == 0 ? static_cast<uint64_t>(image >> 31) : 0);
  return from_bits(bits(value) ^ negative << 63);
}

/// The number high + low, where |low| is much smaller than |high|.
struct Pair {
  double high, low;
};
/// Returns a * b exactly (Dekker 1971).
LLMC_INLINE Pair multiply_exactly(double a, double b) {
  const double high = a * b;
  const double at = a * 134217729.0, bt = b * 134217729.0;  // 2^27 + 1
  const double ah = at - (at - a), bh = bt - (bt - b);
  const double al = a - ah, bl = b - bh;
  return {high, ((ah * bh - high) + ah * bl + al * bh) + al * bl};
}
/// Returns a + b exactly (Knuth).
LLMC_INLINE Pair add_exactly(double a, double b) {
  const double high = a + b, back = high - a;
  return {high, (a - (high - back)) + (b - back)};
}
LLMC_INLINE Pair add(Pair a, Pair b) {
  const Pair sum = add_exactly(a.high, b.high);
  return add_exactly(sum.high, sum.low + (a.low + b.low));
}
LLMC_INLINE Pair multiply(Pair a, Pair b) {
  const Pair product = multiply_exactly(a.high, b.high);
  return add_exactly(product.high, product.low + (a.high * b.low + a.low * b.high));
}

/// Returns sin(x + turn pi/2) for a double x = m 2^q. The product of m and 192 bits of 2^q 2/pi,
/// mod 4, is the number of quarter turns, with an absolute error of at most 2^-137. Of this number,
/// 126 bits after the binary point are kept.
inline double sin_of_double(double x, uint64_t turn) {
  const double a = absolute(x);
  if (!(a < kInfinity)) return kNaN;
  const uint64_t sign = turn == 0 ? bits(x) >> 63 : 0;
  if (a < 0.785) {
    const double value = turn == 0 ? (a < 0x1p-27 ? a : sin_reduced(a)) : cos_reduced(a);
    return from_bits(bits(value) ^ sign << 63);
  }
  const int field = static_cast<int>(bits(a) >> 52);
  const uint64_t m = (bits(a) & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
  const int first = field - 1075 - 1;
  using U128 = unsigned __int128;
  const uint64_t w0 = bits_of_two_over_pi(first), w1 = bits_of_two_over_pi(first + 64);
  const uint64_t w2 = bits_of_two_over_pi(first + 128);
  const U128 low = static_cast<U128>(m) * w2;
  const U128 middle = static_cast<U128>(m) * w1 + static_cast<uint64_t>(low >> 64);
  const uint64_t top = m * w0 + static_cast<uint64_t>(middle >> 64);
  U128 turns = static_cast<U128>(top) << 64 | static_cast<uint64_t>(middle);  // / 2^126
  uint64_t quadrant = top >> 62;
  turns <<= 2;  // the fraction, / 2^128
  const bool past_half = turns >> 127 != 0;
  if (past_half) {
    quadrant += 1;
    turns = 0 - turns;
  }
  const uint64_t high = static_cast<uint64_t>(turns >> 64), rest = static_cast<uint64_t>(turns);
  const double r_high = static_cast<double>(high >> 11) * 0x1p-53;
  const double r_low = static_cast<double>((high << 53 | rest >> 11) >> 11) * 0x1p-106;
  const Pair angle = multiply({r_high, r_low}, {1.5707963267948966, 6.123233995736766e-17});
  quadrant += turn;
  double value = 0;
  if ((quadrant & 1) != 0) {
    value = cos_reduced(angle.high) - angle.low * sin_reduced(angle.high);
  } else {
    value = sin_reduced(angle.high) + angle.low * cos_reduced(angle.high);
    if (past_half) value = -value;
  }
  return from_bits(bits(value) ^ ((quadrant >> 1 & 1) ^ sign) << 63);
}

/// Returns ln x for a positive finite x, with a relative error of about 2^-64.
LLMC_INLINE Pair log_pair(double x) {
  const Split parts = split_exponent(x);
  const double f = parts.m - 1.0;
  const double d = 2.0 + f;
  const double d_low = f - (d - 2.0);
  // s = f / (2 + f); ln(1 + f) = 2 s + 2/3 s^3 + 2/5 s^5 + …
  const double s_high = f / d;
  const Pair back = multiply_exactly(s_high, d);
  const Pair s = {s_high, (((f - back.high) - back.low) - s_high * d_low) / d};
  const Pair z = multiply(s, s);
  const Pair cube = multiply(z, s);
  double tail = 2.0 / 23;
  tail = tail * z.high + 2.0 / 21;
  tail = tail * z.high + 2.0 / 19;
  tail = tail * z.high + 2.0 / 17;
  tail = tail * z.high + 2.0 / 15;
  tail = tail * z.high + 2.0 / 13;
  tail = tail * z.high + 2.0 / 11;
  tail = tail * z.high + 2.0 / 9;
  tail = tail * z.high + 2.0 / 7;
  tail = tail * z.high + 2.0 / 5;
  const Pair third = multiply(cube, {0.6666666666666666, 3.700743415417188e-17});
  Pair sum = add({third.high, third.low}, {tail * (cube.high * z.high), 0.0});
  sum = add({2.0 * s.high, 2.0 * s.low}, sum);
  return add({parts.k * kLn2High, parts.k * kLn2Low}, sum);
}

/// Returns e^(high + low) with an error of little more than half a unit in the last place, so that
/// powers with integer values are exact.
LLMC_INLINE double exp(Pair x) {
  double high = x.high < -746.0 ? -746.0 : x.high;
  high = high > 710.0 ? 710.0 : high;
  const double shifted = high * kLog2E + kMagic;
  const double n = shifted - kMagic;
  const double exact = high - n * kLn2High, rest = n * kLn2Low;
  const double r = exact - rest;
  const double low = ((exact - r) - rest) + (high == x.high ? x.low : 0.0);
  const Pair sum = add_exactly(1.0, r);
  const double q = (r * r) * exp_series<13>(r);
  const double p = sum.high + (sum.low + (q + low * (1.0 + r + q)));
  const double half = n * 0.5 + kMagic;
  const double other = (n - (half - kMagic)) + kMagic;
  return p * power_of_two(half) * power_of_two(other);
}

/// Returns |x|^y. Handles zeros, infinities and NaN, except for the cases that pow() handles.
template <bool kAccurate>
LLMC_INLINE double pow_magnitude(double x, double y) {
  const double a = absolute(x);
  if constexpr (!kAccurate) {
    return exp<13>(y * log(a));
  } else {
    const bool plain = a > 0.0 && a < kInfinity;
    const Pair l = log_pair(plain ? a : 1.0);
    // The bound prevents an overflow in Dekker's product. For |y| above it, every result is 0, 1 or
    // infinite anyway.
    const double bounded = y > 1e20 ? 1e20 : y < -1e20 ? -1e20 : y;
    const Pair e = multiply(l, {bounded, 0.0});
    const double value = exp(e);
    return plain ? value : exp<13>(y * log(a));
  }
}

/// Returns x^y with the special cases of IEEE 754. With kAccurate, the result is accurate enough
/// for double, otherwise for float.
template <bool kAccurate>
LLMC_INLINE double pow(double x, double y) {
  const double magnitude = pow_magnitude<kAccurate>(x, y);
  const double a = absolute(y);
  const bool whole = round_even(y) == y;
  const bool odd = whole && a < 0x1p53 && round_even(a * 0.5) != a * 0.5;
  double result = odd ? copy_sign(magnitude, x) : magnitude;
  result = x < 0.0 && !whole && x > -kInfinity ? kNaN : result;
  result = y == 1.0 ? x : result;
  const bool one = y == 0.0 || x == 1.0 || (x == -1.0 && a == kInfinity);
  return one ? 1.0 : x != x || y != y ? kNaN : result;
}

}  // namespace wide
}  // namespace function
}  // namespace LLMC_ISA
}  // namespace llmc

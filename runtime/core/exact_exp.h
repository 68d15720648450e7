#pragma once

#include <stdint.h>

namespace llmc::core {

/// Returns e^x for x <= 0 with a relative error below 1e-14. The result has the same bits on every
/// target, because it uses only double additions and multiplications in a fixed order, without
/// contraction. Returns 0 for NaN and for x < -708, where e^x is subnormal or close to it.
///
/// Uses the reduction of Cody and Waite, x = n·ln 2 + r with |r| <= ln 2 / 2, then the Taylor
/// series of e^r up to r^13/13!. The next term is below 1e-17.
inline double exact_exp(double x) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kLn2High = 6.93147180369123816490e-01;  // 32 bits, so n * kLn2High is exact
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
  constexpr double kInverseFactorials[] = {1.0 / 6227020800.0,
                                           1.0 / 479001600.0,
                                           1.0 / 39916800.0,
                                           1.0 / 3628800.0,
                                           1.0 / 362880.0,
                                           1.0 / 40320.0,
                                           1.0 / 5040.0,
                                           1.0 / 720.0,
                                           1.0 / 120.0,
                                           1.0 / 24.0,
                                           1.0 / 6.0,
                                           1.0 / 2.0,
                                           1.0,
                                           1.0};
  const bool in_range = x >= -708.0;
  if (!in_range) x = 0.0;
  const double rounded = x * kLog2E + kRound;  // its low bits are those of n
  const double n = rounded - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double sum = 0.0;
  for (const double term : kInverseFactorials) sum = sum * r + term;
  const uint64_t exponent = (__builtin_bit_cast(uint64_t, rounded) + 1023) << 52;
  return in_range ? sum * __builtin_bit_cast(double, exponent) : 0.0;
}

/// Calls take(i, e^x(i)) for i = 0 .. count - 1, in this order. Computes the exponentials of a
/// block first, because compilers vectorize that.
template <class X, class Take>
void each_exp(uint32_t count, const X& x, Take take) {
  constexpr uint32_t kBlock = 64;
  double powers[kBlock];
  for (uint32_t first = 0; first < count; first += kBlock) {
    const uint32_t left = count - first < kBlock ? count - first : kBlock;
    for (uint32_t i = 0; i < left; ++i) powers[i] = exact_exp(x(first + i));
    for (uint32_t i = 0; i < left; ++i) take(first + i, powers[i]);
  }
}

}  // namespace llmc::core

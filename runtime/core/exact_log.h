#pragma once

#include <stdint.h>

namespace llmc::core {

inline constexpr double kLn2 = 0.6931471805599453;

/// Returns ln x with a relative error below 1e-14. The result has the same bits on every target,
/// because it uses only double additions, multiplications and one division in a fixed order,
/// without contraction. Returns -infinity for 0, infinity for infinity, and NaN for NaN and
/// negative numbers.
///
/// Uses x = m·2^n with sqrt(1/2) < m <= sqrt(2), and ln m = 2 artanh f with f = (m - 1) / (m + 1).
/// The series f + f^3/3 + … ends with f^23/23: |f| < 0.172, so the next term is below 1e-19.
inline double exact_log(double x) {
  constexpr double kSqrt2 = 1.4142135623730951;
  constexpr double kLn2High = 6.93147180369123816490e-01;  // 32 bits, so n * kLn2High is exact
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  constexpr double kInverseOdds[] = {1.0 / 23.0, 1.0 / 21.0, 1.0 / 19.0, 1.0 / 17.0,
                                     1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0,
                                     1.0 / 7.0,  1.0 / 5.0,  1.0 / 3.0};
  if (x == 0.0) return -__builtin_inf();
  if (!(x > 0.0)) return __builtin_nan("");
  if (x == __builtin_inf()) return x;
  int64_t n = -1023;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    n -= 54;
  }
  const uint64_t bits = __builtin_bit_cast(uint64_t, x);
  n += static_cast<int64_t>(bits >> 52);
  double m = __builtin_bit_cast(double, (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1023} << 52);
  if (m > kSqrt2) {
    m *= 0.5;
    ++n;
  }
  const double f = (m - 1.0) / (m + 1.0);
  const double square = f * f;
  double sum = 0.0;
  for (const double term : kInverseOdds) sum = (sum + term) * square;
  const double whole = static_cast<double>(n);
  return whole * kLn2High + (whole * kLn2Low + 2.0 * (f + f * sum));
}

}  // namespace llmc::core

#include "compiler/reference/functions.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace llmc::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns 2^n for a normal result.
double power_of_two(int n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

/// Returns e^r - 1 for |r| <= 0.36: Taylor's series to r^14 / 14!.
double exp_less_one(double r) {
  double sum = 0;
  for (int n = 14; n > 0; --n) sum = (sum + 1) * r / n;
  return sum;
}

/// x = n · pi/2 + rest, where `quarter` is n modulo 4 and |rest| <= pi/4.
struct Reduced {
  int quarter = 0;
  double rest = 0;
};
Reduced reduced(double x) {
  const double n = std::floor(x * 0.63661977236758134308 + 0.5);
  // The first two parts of pi/2 have 28 bits, so that their products with n are exact.
  constexpr double kParts[] = {0x1.921fb54p+0, 0x1.10b461p-30, 0x1.a62633145c06ep-58};
  double rest = x;
  for (const double part : kParts) rest -= n * part;
  return {static_cast<int>(static_cast<std::int64_t>(n) & 3), rest};
}

/// Return sin r and cos r for |r| <= pi/4: Taylor's series at least to r^18 / 18!.
double sine_of(double r) {
  const double square = r * r;
  double sum = 1;
  for (int n = 18; n > 0; n -= 2) sum = 1 - sum * square / (n * (n + 1));
  return sum * r;
}
double cosine_of(double r) {
  const double square = r * r;
  double sum = 1;
  for (int n = 18; n > 0; n -= 2) sum = 1 - sum * square / (n * (n - 1));
  return sum;
}

}  // namespace

double exact_exp(double x) {
  if (std::isnan(x)) return x;
  if (x > 709.8) return kInfinity;
  if (x < -745.2) return 0;
  // ln 2 in two parts, the first of which has 32 bits.
  constexpr double kHigh = 0x1.62e42feep-1, kLow = 0x1.a39ef35793c76p-33;
  const double n = std::floor(x * 1.44269504088896340736 + 0.5);
  const double scaled = 1 + exp_less_one((x - n * kHigh) - n * kLow);
  const int half = static_cast<int>(n) / 2;
  return scaled * power_of_two(half) * power_of_two(static_cast<int>(n) - half);
}

double exact_tanh(double x) {
  const double magnitude = std::fabs(x);
  if (magnitude <= 0.17) {
    const double e = exp_less_one(2 * x);
    return e / (e + 2);
  }
  const double large = 1 - 2 / (exact_exp(2 * magnitude) + 1);  // NaN for NaN
  return x < 0 ? -large : large;
}

double exact_erf(double x) {
  if (std::isnan(x)) return x;
  const double magnitude = std::fabs(x), square = x * x;
  constexpr double kTwoBySqrtPi = 1.12837916709551257390;
  double value = 1;
  if (magnitude < 2.5) {
    // e^-x² times the sum of 2^n x^(2n+1) / (1 · 3 · … · (2n+1)), whose terms are all of one sign.
    double term = magnitude, sum = magnitude;
    for (int n = 1; term > sum * 1e-17; ++n) sum += term *= 2 * square / (2 * n + 1);
    value = kTwoBySqrtPi * exact_exp(-square) * sum;
  } else if (magnitude < 6) {
    // The continued fraction of 1 - erf(x), evaluated from its 60th level.
    double part = magnitude;
    for (int n = 60; n > 0; --n) part = magnitude + 0.5 * n / part;
    value = 1 - exact_exp(-square) * kTwoBySqrtPi / (2 * part);
  }
  return x < 0 ? -value : value;
}

/// Sine and cosine of angles of at least this magnitude are computed by libm.
constexpr double kLargestAngle = 4194304.0;

double exact_sin(double x) {
  if (!(std::fabs(x) < kLargestAngle)) return std::sin(x);
  const auto [quarter, rest] = reduced(x);
  const double y = quarter % 2 == 0 ? sine_of(rest) : cosine_of(rest);
  return quarter < 2 ? y : -y;
}

double exact_cos(double x) {
  if (!(std::fabs(x) < kLargestAngle)) return std::cos(x);
  const auto [quarter, rest] = reduced(x);
  const double y = quarter % 2 == 0 ? cosine_of(rest) : sine_of(rest);
  return quarter == 0 || quarter == 3 ? y : -y;
}

}  // namespace llmc::reference

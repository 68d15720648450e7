#include "models/random/normal.h"

#include <array>
#include <cmath>

#include "compiler/support/check.h"
#include "compiler/support/half.h"

namespace llmc::models {
namespace {

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;

/// Returns the natural logarithm of x, 0 < x < 1. Uses only correctly rounded operations, because
/// equal seeds must give equal bytes everywhere, and library functions differ between platforms in
/// the last digit.
double logarithm(double x) {
  int halvings = 0;
  for (; x < 0.75; x *= 2) ++halvings;
  // ln x = 2 atanh((x - 1) / (x + 1)); the argument is at most 1/7.
  const double t = (x - 1) / (x + 1), square = t * t;
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  constexpr double kLn2 = 0.693147180559945309417;
  return 2 * t * sum - halvings * kLn2;
}

template <std::size_t N>
double polynomial(const std::array<double, N>& c, double x) {
  double sum = 0;
  for (const double a : c) sum = sum * x + a;
  return sum;
}

/// Returns the inverse of the distribution function for p in (0, 0.5], by Acklam's rational
/// approximation (2003): relative error below 1.2e-9.
double lower_quantile(double p) {
  constexpr std::array a{-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                         1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr std::array b{-5.447609879822406e+01, 1.615858368580409e+02,  -1.556989798598866e+02,
                         6.680131188771972e+01,  -1.328068155288572e+01, 1.0};
  constexpr std::array c{-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                         -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr std::array d{7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                         3.754408661907416e+00, 1.0};
  if (p < 0.02425) {
    const double q = std::sqrt(-2 * logarithm(p));
    return polynomial(c, q) / polynomial(d, q);
  }
  const double q = p - 0.5, r = q * q;
  return polynomial(a, r) * q / polynomial(b, r);
}

template <class Round>
std::vector<std::uint16_t> quantiles(double mean, double deviation, Round round) {
  std::vector<std::uint16_t> out(kQuantiles);
  for (std::uint32_t i = 0; i < kQuantiles; ++i)
    out[i] = round(static_cast<float>(mean + deviation * normal_quantile(i)));
  return out;
}

}  // namespace

NormalStream::NormalStream(std::uint64_t seed, std::uint64_t stream)
    : key_(mix(mix(seed + kStep) + stream * kStep)) {}

std::uint64_t NormalStream::bits(std::uint64_t group) const {
  return mix(key_ + (group + 1) * kStep);
}

void NormalStream::fill(std::uint64_t first, std::span<const std::uint16_t> values,
                        std::span<std::uint16_t> out) const {
  LLMC_CHECK(values.size() == kQuantiles);
  std::size_t i = 0;
  for (; i < out.size() && (first + i) % 4 != 0; ++i) out[i] = values[quantile(first + i)];
  for (; i + 4 <= out.size(); i += 4) {
    const std::uint64_t four = bits((first + i) / 4);
    for (std::size_t j = 0; j < 4; ++j) out[i + j] = values[four >> 16 * j & 0xffffu];
  }
  for (; i < out.size(); ++i) out[i] = values[quantile(first + i)];
}

double normal_quantile(std::uint32_t i) {
  const bool upper = i >= kQuantiles / 2;
  const double lower = lower_quantile((upper ? kQuantiles - 1 - i + 0.5 : i + 0.5) /
                                      static_cast<double>(kQuantiles));
  return upper ? -lower : lower;
}

std::vector<std::uint16_t> f16_quantiles(double mean, double deviation, bool through_bf16) {
  return quantiles(mean, deviation, [&](float x) {
    return f32_to_f16(through_bf16 ? bf16_to_f32(f32_to_bf16(x)) : x);
  });
}

std::vector<std::uint16_t> bf16_quantiles(double mean, double deviation) {
  return quantiles(mean, deviation, f32_to_bf16);
}

}  // namespace llmc::models

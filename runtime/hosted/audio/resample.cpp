#include "runtime/hosted/audio/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace llmc::hosted {
namespace {

/// The modified Bessel function of the first kind of order 0, by its power series.
double bessel_i0(double x) {
  double sum = 1, term = 1;
  for (int k = 1; term > 1e-12 * sum; ++k) {
    term *= x * x / (4.0 * k * k);
    sum += term;
  }
  return sum;
}

constexpr double kZeroCrossings = 32, kBeta = 9, kCutoff = 0.95;

/// Returns the windowed sinc function at `t`, in half periods of the cut-off frequency.
double windowed_sinc(double t) {
  const double x = t / kZeroCrossings;
  if (std::abs(x) >= 1) return 0;
  const double window = bessel_i0(kBeta * std::sqrt(1 - x * x)) / bessel_i0(kBeta);
  const double angle = std::numbers::pi * t;
  return window * (t == 0 ? 1 : std::sin(angle) / angle);
}

/// Returns the weights of the samples from ceil(offset - reach) on, for a sample at `offset`.
std::vector<float> sinc_filter(double offset, double scale, double reach) {
  std::vector<float> weights;
  const auto first = static_cast<std::int64_t>(std::ceil(offset - reach));
  const auto last = static_cast<std::int64_t>(std::floor(offset + reach));
  for (std::int64_t i = first; i <= last; ++i)
    weights.push_back(
        static_cast<float>(scale * windowed_sinc((static_cast<double>(i) - offset) * scale)));
  return weights;
}

}  // namespace

std::vector<float> resample(std::span<const float> samples, std::uint32_t from, std::uint32_t to) {
  if (from == to) return {samples.begin(), samples.end()};
  const std::uint64_t common = std::gcd(from, to), up = to / common, down = from / common;
  const double scale = kCutoff * std::min(1.0, static_cast<double>(to) / static_cast<double>(from));
  const double reach = kZeroCrossings / scale;
  // Output sample k is at k * down / up in the input. The fraction of this position is one of `up`
  // phases. The weights of all phases are stored if there are few; for rates without a large common
  // divisor they are computed for each sample.
  constexpr std::uint64_t kMaxPhases = 1024;
  std::vector<std::vector<float>> phases;
  const auto of_phase = [&](std::uint64_t phase) {
    return sinc_filter(static_cast<double>(phase) / static_cast<double>(up), scale, reach);
  };
  if (up <= kMaxPhases)
    for (std::uint64_t phase = 0; phase < up; ++phase) phases.push_back(of_phase(phase));
  const std::uint64_t count = (samples.size() * up + down - 1) / down;
  std::vector<float> out;
  out.reserve(count);
  for (std::uint64_t k = 0; k < count; ++k) {
    const std::uint64_t phase = k * down % up;
    const std::vector<float> computed = phases.empty() ? of_phase(phase) : std::vector<float>();
    const std::vector<float>& weights = phases.empty() ? computed : phases[phase];
    const auto whole = static_cast<std::int64_t>(k * down / up);
    const auto first = whole + static_cast<std::int64_t>(std::ceil(
                                   static_cast<double>(phase) / static_cast<double>(up) - reach));
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::int64_t at = first + static_cast<std::int64_t>(i);
      if (at >= 0 && at < static_cast<std::int64_t>(samples.size()))
        sum += double{weights[i]} * double{samples[static_cast<std::size_t>(at)]};
    }
    out.push_back(static_cast<float>(sum));
  }
  return out;
}

}  // namespace llmc::hosted

#include "runtime/hosted/audio/log_mel.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

namespace llmc::hosted {
namespace {

using Complex = std::complex<double>;

constexpr std::size_t kBins = kMelWindow / 2 + 1;

/// Discrete Fourier transform of kMelWindow numbers, with the mixed-radix Cooley-Tukey algorithm.
class Transform {
 public:
  Transform() {
    for (std::size_t i = 0; i < kMelWindow; ++i)
      roots_[i] = std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(i) / kMelWindow);
  }

  /// Sets out[k] to the sum of x[j * stride] * exp(-2 pi i j k / n) over j < n. `n` divides
  /// kMelWindow.
  void run(const double* x, std::size_t stride, std::size_t n, Complex* out) const {
    if (n == 1) {
      *out = *x;
      return;
    }
    std::size_t factor = 2;
    while (n % factor != 0) ++factor;
    const std::size_t rest = n / factor;
    for (std::size_t f = 0; f < factor; ++f)
      run(x + f * stride, stride * factor, rest, out + f * rest);
    for (std::size_t k = 0; k < rest; ++k) {
      Complex parts[kMaxFactor], sums[kMaxFactor];
      for (std::size_t f = 0; f < factor; ++f) parts[f] = out[f * rest + k];
      for (std::size_t s = 0; s < factor; ++s) {
        sums[s] = 0;
        for (std::size_t f = 0; f < factor; ++f)
          sums[s] += parts[f] * roots_[f * (k + s * rest) % n * (kMelWindow / n)];
      }
      for (std::size_t s = 0; s < factor; ++s) out[s * rest + k] = sums[s];
    }
  }

 private:
  static constexpr std::size_t kMaxFactor = 5;
  static_assert(kMelWindow == 2 * 2 * 2 * 2 * 5 * 5);
  Complex roots_[kMelWindow];
};

/// Slaney's mel scale: linear below 1 kHz, logarithmic above it.
double mel_of(double hertz) {
  return hertz < 1000 ? 3 * hertz / 200 : 15 + 27 * std::log(hertz / 1000) / std::log(6.4);
}
double hertz_of(double mel) {
  return mel < 15 ? 200 * mel / 3 : 1000 * std::exp(std::log(6.4) / 27 * (mel - 15));
}

/// One filter: the weights of consecutive bins of the spectrum, beginning with bin `first`.
struct MelFilter {
  std::size_t first = 0;
  std::vector<double> weights;
};

std::vector<MelFilter> mel_filters(std::size_t count) {
  const double top = mel_of(kMelRate / 2.0);
  const auto edge = [&](std::size_t i) {
    return hertz_of(top * static_cast<double>(i) / static_cast<double>(count + 1));
  };
  std::vector<MelFilter> filters(count);
  for (std::size_t m = 0; m < count; ++m) {
    const double left = edge(m), middle = edge(m + 1), right = edge(m + 2);
    for (std::size_t bin = 0; bin < kBins; ++bin) {
      const double hertz = static_cast<double>(bin * kMelRate) / kMelWindow;
      const double height =
          std::min((hertz - left) / (middle - left), (right - hertz) / (right - middle));
      if (height <= 0) continue;
      if (filters[m].weights.empty()) filters[m].first = bin;
      filters[m].weights.push_back(height * 2 / (right - left));
    }
  }
  return filters;
}

}  // namespace

std::vector<float> log_mel(std::span<const float> samples, std::size_t mels, std::size_t frames) {
  constexpr std::size_t kPad = kMelWindow / 2;
  const std::size_t length = frames * kMelHop, used = std::min(length, samples.size());
  std::vector<double> padded(length + 2 * kPad);
  std::copy_n(samples.begin(), used, padded.begin() + kPad);
  for (std::size_t i = 1; i <= kPad; ++i) {
    padded[kPad - i] = padded[kPad + i];
    padded[kPad + length - 1 + i] = padded[kPad + length - 1 - i];
  }
  double hann[kMelWindow];
  for (std::size_t i = 0; i < kMelWindow; ++i)
    hann[i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / kMelWindow);
  const Transform transform;
  const std::vector<MelFilter> filters = mel_filters(mels);
  std::vector<double> levels(mels * frames);
  double most = -10;
  for (std::size_t frame = 0; frame < frames; ++frame) {
    double window[kMelWindow], power[kBins];
    Complex spectrum[kMelWindow];
    for (std::size_t i = 0; i < kMelWindow; ++i) window[i] = hann[i] * padded[frame * kMelHop + i];
    transform.run(window, 1, kMelWindow, spectrum);
    for (std::size_t bin = 0; bin < kBins; ++bin) power[bin] = std::norm(spectrum[bin]);
    for (std::size_t m = 0; m < mels; ++m) {
      double sum = 0;
      for (std::size_t i = 0; i < filters[m].weights.size(); ++i)
        sum += filters[m].weights[i] * power[filters[m].first + i];
      const double level = std::log10(std::max(sum, 1e-10));
      levels[m * frames + frame] = level;
      most = std::max(most, level);
    }
  }
  std::vector<float> features;
  features.reserve(levels.size());
  for (const double level : levels)
    features.push_back(static_cast<float>((std::max(level, most - 8) + 4) / 4));
  return features;
}

}  // namespace llmc::hosted

#include "compiler/quant/block_fit.h"

#include <algorithm>

#include "compiler/support/check.h"

namespace llmc::quant {
namespace {

/// Steps of the starting range: fewer than 15 clips the ends (heavy tails), more leaves codes
/// unused there (when the ends would otherwise fall badly).
constexpr std::array<float, 3> kStartSteps{13.5f, 15, 16};
constexpr int kRefits = 2;

float inverse_of(float scale) {
  return scale > 0 ? 1.0f / scale : 0.0f;
}

}  // namespace

FitBlock::FitBlock(std::span<const float> weights, std::span<const float> importance) {
  LLMC_CHECK(!weights.empty() && weights.size() <= kFitWidth);
  LLMC_CHECK(importance.empty() || importance.size() == weights.size());
  low_ = high_ = weights[0];
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const float w = weights[i];
    const float q = importance.empty() ? 1.0f : importance[i];
    weights_[i / 4][i % 4] = w;
    importance_[i / 4][i % 4] = q;
    low_ = std::min(low_, w);
    high_ = std::max(high_, w);
    total_ += static_cast<double>(q);
    weighted_ += static_cast<double>(q) * static_cast<double>(w);
  }
  if (total_ > 0) inverse_total_ = 1 / total_;
}

FitBlock::Lanes FitBlock::codes_of(std::size_t vector, Lanes min, Lanes inverse) const {
  using Integers = int __attribute__((vector_size(16)));
  const Lanes zero{}, largest = zero + kLargestCode;
  Lanes c = (weights_[vector] - min) * inverse;
  c = c < largest ? c : largest;
  c = c > zero ? c : zero;
  return __builtin_convertvector(__builtin_convertvector(c + 0.5f, Integers), Lanes);
}

void FitBlock::codes(Fit fit, std::span<float, kFitWidth> out) const {
  const Lanes min = Lanes{} + fit.min, inverse = Lanes{} + inverse_of(fit.scale);
  for (std::size_t v = 0; v < kVectors; ++v) {
    const Lanes c = codes_of(v, min, inverse);
    for (std::size_t i = 0; i < 4; ++i) out[v * 4 + i] = c[i];
  }
}

Rounded FitBlock::round(Fit fit) const {
  const Lanes min = Lanes{} + fit.min, scale = Lanes{} + fit.scale;
  const Lanes inverse = Lanes{} + inverse_of(fit.scale);
  Lanes error{}, sum_c{}, sum_cc{}, sum_cw{};
  for (std::size_t v = 0; v < kVectors; ++v) {
    const Lanes c = codes_of(v, min, inverse);
    const Lanes rest = (weights_[v] - min) - scale * c;
    const Lanes qc = importance_[v] * c;
    error += importance_[v] * (rest * rest);
    sum_c += qc;
    sum_cc += qc * c;
    sum_cw += qc * weights_[v];
  }
  return {sum(error), sum(sum_c), sum(sum_cc), sum(sum_cw)};
}

Fit FitBlock::refit(const Rounded& rounded, float sign) const {
  const auto c = static_cast<double>(rounded.c), cc = static_cast<double>(rounded.cc);
  const auto cw = static_cast<double>(rounded.cw);
  // Normal equations of  sum q (w - scale*c - min)^2.
  const double determinant = total_ * cc - c * c;
  if (!(determinant > 0)) {  // all codes equal
    const double level = weighted_ * inverse_total_;
    return {0, static_cast<float>(level * static_cast<double>(sign) > 0 ? level : 0)};
  }
  const double scale = (total_ * cw - c * weighted_) / determinant;
  const double min = (weighted_ - scale * c) * inverse_total_;
  if (min * static_cast<double>(sign) >= 0)
    return {static_cast<float>(scale > 0 ? scale : 0), static_cast<float>(min)};
  const double through_zero = cc > 0 ? cw / cc : 0;
  return {static_cast<float>(through_zero > 0 ? through_zero : 0), 0};
}

Fit FitBlock::search(float sign) const {
  // The min has the row's sign or is 0, so the codes must reach from there.
  const float low = sign < 0 ? std::min(low_, 0.0f) : low_;
  const float high = sign < 0 ? std::max(high_, low) : high_;
  Fit best;
  float least = 0;
  bool first = true;
  for (const float steps : kStartSteps) {
    const float scale = (high - low) / steps;
    // Centred on the range.
    const float min = low + ((high - low) - kLargestCode * scale) * 0.5f;
    Fit fit{scale, min * sign >= 0 ? min : 0.0f};
    for (int i = 0; i <= kRefits; ++i) {
      const Rounded rounded = round(fit);
      if (first || rounded.error < least) {
        first = false;
        least = rounded.error;
        best = fit;
      }
      if (i < kRefits) fit = refit(rounded, sign);
    }
  }
  return best;
}

}  // namespace llmc::quant

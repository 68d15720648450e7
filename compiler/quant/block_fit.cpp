#include "compiler/quant/block_fit.h"

#include <algorithm>
#include <cstring>

#include "compiler/support/check.h"

namespace llmc::quant {
namespace {

/// Numbers of steps between codes in the initial range. With fewer than 15, the ends of the range
/// are clipped, which suits heavy tails. With more, codes at the ends stay unused.
constexpr std::array<float, 3> kStartSteps{13.5f, 15, 16};
constexpr int kRefits = 2;

constexpr std::array<float, kFitWidth> ones() {
  std::array<float, kFitWidth> all{};
  all.fill(1);
  return all;
}

float inverse_of(float scale) {
  return scale > 0 ? 1.0f / scale : 0.0f;
}

}  // namespace

FitBlock::FitBlock(std::span<const float> weights, std::span<const float> importance) {
  LLMC_CHECK(!weights.empty() && weights.size() <= kFitWidth);
  LLMC_CHECK(importance.empty() || importance.size() == weights.size());
  uniform_ = importance.empty() && weights.size() == kFitWidth;
  std::memcpy(weights_.data(), weights.data(), weights.size_bytes());
  if (importance.empty()) {
    constexpr std::array kOnes = ones();
    std::memcpy(importance_.data(), kOnes.data(), weights.size_bytes());
    total_ = static_cast<double>(weights.size());
    for (const float w : weights) weighted_ += static_cast<double>(w);
  } else {
    std::memcpy(importance_.data(), importance.data(), importance.size_bytes());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      total_ += static_cast<double>(importance[i]);
      weighted_ += static_cast<double>(importance[i]) * static_cast<double>(weights[i]);
    }
  }
  low_ = high_ = weights[0];
  if (weights.size() == kFitWidth) {
    Lanes low = weights_[0], high = weights_[0];
    for (const Lanes& w : weights_) {
      low = w < low ? w : low;
      high = w > high ? w : high;
    }
    for (std::size_t i = 0; i < 4; ++i) {
      low_ = std::min(low_, low[i]);
      high_ = std::max(high_, high[i]);
    }
  } else {
    for (const float w : weights) {
      low_ = std::min(low_, w);
      high_ = std::max(high_, w);
    }
  }
  if (total_ > 0) inverse_total_ = 1 / total_;
}

void FitBlock::codes(Fit fit, std::span<float, kFitWidth> out) const {
  using Integers = int __attribute__((vector_size(16)));
  const Lanes min = Lanes{} + fit.min, inverse = Lanes{} + inverse_of(fit.scale);
  const Lanes zero{}, largest = zero + kLargestCode;
  for (std::size_t v = 0; v < kVectors; ++v) {
    Lanes c = (weights_[v] - min) * inverse;
    c = c < largest ? c : largest;
    c = c > zero ? c : zero;
    c = __builtin_convertvector(__builtin_convertvector(c + 0.5f, Integers), Lanes);
    for (std::size_t i = 0; i < 4; ++i) out[v * 4 + i] = c[i];
  }
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

namespace {

using Lanes = FitBlock::Lanes;
using Wide = float __attribute__((vector_size(32)));  // four lanes of each block
using WideIntegers = int __attribute__((vector_size(32)));

/// Writes the sum of the four lanes of each block to `first` and `second`, in a fixed order.
[[gnu::always_inline]] inline void add_lanes(const Wide& x, float& first, float& second) {
  first = (x[0] + x[2]) + (x[1] + x[3]);
  second = (x[4] + x[6]) + (x[5] + x[7]);
}

/// Rounds both blocks. With `kUniform` all importances are 1 and the multiplication is omitted,
/// which gives the same bits.
template <bool kUniform, bool kAll>
[[gnu::always_inline]] inline void round_both(const BlockPair& blocks, const FitPair& fits,
                                              RoundedPair& out) {
  const float a = fits[0].min, b = fits[1].min;
  const Wide min{a, a, a, a, b, b, b, b};
  const float sa = fits[0].scale, sb = fits[1].scale;
  const Wide scale{sa, sa, sa, sa, sb, sb, sb, sb};
  const float ia = sa > 0 ? 1.0f / sa : 0.0f, ib = sb > 0 ? 1.0f / sb : 0.0f;
  const Wide inverse{ia, ia, ia, ia, ib, ib, ib, ib};
  const Wide zero{}, largest = zero + kLargestCode;
  Wide error{}, sum_c{}, sum_cc{}, sum_cw{};
#pragma clang loop unroll(full)
  for (std::size_t v = 0; v < FitBlock::kVectors; ++v) {
    const Wide w = __builtin_shufflevector(blocks[0]->weights()[v], blocks[1]->weights()[v], 0, 1,
                                           2, 3, 4, 5, 6, 7);
    const Wide from_min = w - min;
    Wide c = from_min * inverse;
    c = c < largest ? c : largest;
    c = c > zero ? c : zero;
    c = __builtin_convertvector(__builtin_convertvector(c + 0.5f, WideIntegers), Wide);
    const Wide rest = from_min - scale * c;
    Wide square = rest * rest, qc = c;
    if constexpr (!kUniform) {
      const Wide q = __builtin_shufflevector(blocks[0]->importance()[v], blocks[1]->importance()[v],
                                             0, 1, 2, 3, 4, 5, 6, 7);
      square = q * square;
      qc = q * c;
    }
    error += square;
    sum_c += qc;
    if constexpr (kAll) {
      sum_cc += qc * c;
      sum_cw += qc * w;
    }
  }
  add_lanes(error, out[0].error, out[1].error);
  add_lanes(sum_c, out[0].c, out[1].c);
  if constexpr (kAll) {
    add_lanes(sum_cc, out[0].cc, out[1].cc);
    add_lanes(sum_cw, out[0].cw, out[1].cw);
  }
}

[[gnu::always_inline]] inline void round_selected(const BlockPair& blocks, const FitPair& fits,
                                                  Sums sums, RoundedPair& out) {
  const bool uniform = blocks[0]->uniform() && blocks[1]->uniform();
  if (uniform && sums == Sums::kErrorAndCodes) return round_both<true, false>(blocks, fits, out);
  if (uniform) return round_both<true, true>(blocks, fits, out);
  return round_both<false, true>(blocks, fits, out);
}

void round_anywhere(const BlockPair& blocks, const FitPair& fits, Sums sums, RoundedPair& out) {
  round_selected(blocks, fits, sums, out);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void round_avx2(const BlockPair& blocks, const FitPair& fits, Sums sums,
                                        RoundedPair& out) {
  round_selected(blocks, fits, sums, out);
}
#endif

constexpr std::array kRounders{
    Rounder{"any processor", round_anywhere},
#if defined(__x86_64__)
    Rounder{"avx2", round_avx2},
#endif
};

}  // namespace

std::span<const Rounder> rounders() {
#if defined(__x86_64__)
  static const std::size_t count = __builtin_cpu_supports("avx2") ? 2 : 1;
#else
  static constexpr std::size_t count = 1;
#endif
  return std::span(kRounders).first(count);
}

FitPair search(const Rounder& rounder, const BlockPair& blocks, float sign) {
  FitPair best{}, fits{};
  RoundedPair rounded{};
  std::array<float, 2> least{};
  bool first = true;
  for (const float steps : kStartSteps) {
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      // The min has the row's sign or is 0, so the range of codes starts at 0 if all weights have
      // the other sign.
      const float low = sign < 0 ? std::min(blocks[b]->low(), 0.0f) : blocks[b]->low();
      const float high = sign < 0 ? std::max(blocks[b]->high(), low) : blocks[b]->high();
      const float scale = (high - low) / steps;
      // Center on the range.
      const float min = low + ((high - low) - kLargestCode * scale) * 0.5f;
      fits[b] = {scale, min * sign >= 0 ? min : 0.0f};
    }
    for (int i = 0; i <= kRefits; ++i) {
      const bool again = i < kRefits;
      rounder.round(blocks, fits, again ? Sums::kAll : Sums::kErrorAndCodes, rounded);
      for (std::size_t b = 0; b < blocks.size(); ++b) {
        if (first || rounded[b].error < least[b]) {
          least[b] = rounded[b].error;
          best[b] = fits[b];
        }
        if (again) fits[b] = blocks[b]->refit(rounded[b], sign);
      }
      first = false;
    }
  }
  return best;
}

}  // namespace llmc::quant

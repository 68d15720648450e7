#include "compiler/quant/q4.h"

#include <algorithm>
#include <array>
#include <bitset>

#include "compiler/quant/block_fit.h"
#include "compiler/support/check.h"
#include "llmc/half.h"

namespace llmc::quant {
namespace {

constexpr float kLargestScale = 15, kLargestMin = 255;
/// Of the min, for a scale on the grid: starts in steps of the codes, rounds of each.
constexpr std::array<float, 3> kMinStarts{-0.5f, 0, 0.5f};
constexpr int kMinRounds = 6;

/// floor(x + 0.5) clamped, for what should be near 0..limit.
float round_clamped(float x, float lowest, float limit) {
  const float clamped = std::min(std::max(x, lowest), limit);
  return static_cast<float>(static_cast<int>(clamped + 0.5f));
}

/// 2^e with the row's largest magnitude in [2^e, 2^(e+1)), kept where both it and its inverse are
/// normal floats.
float power_of_two_below(float largest) {
  const std::uint32_t exponent = float_bits(largest) >> 23 & 0xffu;
  return bits_float(std::clamp<std::uint32_t>(exponent, 1, 253) << 23);
}

struct BlockCode {
  float s = 1, m = 0;
};

/// s and m on the row's grid: the steps of s around the float fit, each with the min that suits it.
/// Another scale moves the ends of the range, and rounding again moves the min only a little, so
/// each starts anew with the range centred where the fit has it, and half a step beside.
BlockCode quantize_fit(const FitBlock& block, Fit fit, float scale, float min) {
  const float nearest = scale > 0 ? round_clamped(fit.scale / scale, 1, kLargestScale) : 1;
  const float inverse_min = min != 0 ? 1 / min : 0;
  BlockCode best;
  float least = 0;
  bool first = true;
  for (float s = nearest - 1; s <= nearest + 1; ++s) {
    if (s < 1 || s > kLargestScale) continue;
    const float step = scale * s;
    // A block of one value has no range to keep centred; its min is the value.
    const float shift = fit.scale > 0 ? (fit.scale - step) * (kLargestCode / 2) : 0;
    std::bitset<256> tried;  // from one m the search always goes on the same way
    for (const float start : kMinStarts) {
      float wanted = fit.min + shift + start * step;
      for (int i = 0; i < kMinRounds; ++i) {
        const float m = round_clamped(wanted * inverse_min, 0, kLargestMin);
        if (tried.test(static_cast<std::size_t>(m))) break;
        tried.set(static_cast<std::size_t>(m));
        const Rounded rounded = block.round({step, min * m});
        if (first || rounded.error < least) {
          first = false;
          least = rounded.error;
          best = {s, m};
        }
        wanted = block.best_min(rounded, step);
      }
    }
  }
  return best;
}

}  // namespace

void encode_q4_row(std::span<const float> weights, std::span<const float> importance, Q4Row& out) {
  LLMC_CHECK(importance.empty() || importance.size() == weights.size());
  const std::size_t blocks = (weights.size() + kFitWidth - 1) / kFitWidth;
  out.codes.assign(weights.size(), 0);
  out.scales.assign(blocks, 1);
  out.minimums.assign(blocks, 0);
  out.scale = out.min = 0;
  float largest = 0, low = 0;
  for (const float w : weights) {
    largest = std::max(largest, w < 0 ? -w : w);
    low = std::min(low, w);
  }
  LLMC_CHECK(largest <= kLargestQ4Weight);
  if (largest == 0) return;

  // Squares of very large or small weights leave the range of a float, so the search works on the
  // row times a power of two, which is exact.
  const float unit = power_of_two_below(largest);
  const float sign = low < 0 ? -1.0f : 1.0f;
  std::vector<FitBlock> parts;
  std::vector<Fit> fits;
  parts.reserve(blocks);
  fits.reserve(blocks);
  float largest_scale = 0, largest_min = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t begin = b * kFitWidth;
    const std::size_t count = std::min(kFitWidth, weights.size() - begin);
    std::array<float, kFitWidth> scaled;
    for (std::size_t i = 0; i < count; ++i) scaled[i] = weights[begin + i] / unit;
    parts.emplace_back(std::span(scaled).first(count),
                       importance.empty() ? importance : importance.subspan(begin, count));
    fits.push_back(parts.back().search(sign));
    largest_scale = std::max(largest_scale, fits.back().scale);
    largest_min = std::max(largest_min, fits.back().min * sign);
  }

  out.scale = f32_to_bf16(largest_scale / kLargestScale * unit);
  out.min = f32_to_bf16(sign * largest_min / kLargestMin * unit);
  // What is stored is what the blocks are fitted to: rounding S and M costs nothing then.
  const float scale = bf16_to_f32(out.scale) / unit;
  const float min = bf16_to_f32(out.min) / unit;
  for (std::size_t b = 0; b < blocks; ++b) {
    const BlockCode code = quantize_fit(parts[b], fits[b], scale, min);
    out.scales[b] = static_cast<std::uint8_t>(code.s);
    out.minimums[b] = static_cast<std::uint8_t>(code.m);
    std::array<float, kFitWidth> codes;
    parts[b].codes({scale * code.s, min * code.m}, codes);
    const std::size_t begin = b * kFitWidth;
    for (std::size_t i = begin; i < std::min(begin + kFitWidth, weights.size()); ++i)
      out.codes[i] = static_cast<std::uint8_t>(codes[i - begin]);
  }
}

void decode_q4_row(const Q4Row& row, std::span<float> weights) {
  LLMC_CHECK(weights.size() == row.codes.size());
  const float scale = bf16_to_f32(row.scale), min = bf16_to_f32(row.min);
  for (std::size_t k = 0; k < weights.size(); ++k) {
    const std::size_t b = k / kFitWidth;
    const float scaled = scale * static_cast<float>(row.scales[b] * row.codes[k]);
    weights[k] = scaled + min * static_cast<float>(row.minimums[b]);
  }
}

}  // namespace llmc::quant

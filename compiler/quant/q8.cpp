#include "compiler/quant/q8.h"

#include <algorithm>

#include "compiler/support/check.h"
#include "llmc/half.h"

namespace llmc::quant {
namespace {

constexpr std::size_t kBlockWidth = 32;
constexpr float kLargestQ8 = 127;

std::uint16_t block_scale(float largest) {
  std::uint16_t bits = f32_to_f16(largest / kLargestQ8);
  // Subnormal scales are coarse: a scale that is rounded down could clip the largest weights.
  if (f16_to_f32(bits) * (kLargestQ8 + 0.5f) < largest) ++bits;
  return bits;
}

}  // namespace

void encode_q8_row(std::span<const float> weights, ScaledRow& out) {
  out.codes.assign(weights.size(), 0);
  out.scales.assign((weights.size() + kBlockWidth - 1) / kBlockWidth, 0);
  for (std::size_t b = 0; b < out.scales.size(); ++b) {
    const std::size_t begin = b * kBlockWidth;
    const std::size_t end = std::min(begin + kBlockWidth, weights.size());
    float largest = 0;
    for (std::size_t k = begin; k < end; ++k)
      largest = std::max(largest, weights[k] < 0 ? -weights[k] : weights[k]);
    LLMC_CHECK(largest <= kLargestQ8Weight);
    out.scales[b] = block_scale(largest);
    const float scale = f16_to_f32(out.scales[b]);
    if (scale == 0) continue;
    for (std::size_t k = begin; k < end; ++k) {
      const float code = std::clamp(weights[k] / scale, -kLargestQ8, kLargestQ8);
      out.codes[k] = static_cast<std::int8_t>(code < 0 ? code - 0.5f : code + 0.5f);
    }
  }
}

}  // namespace llmc::quant

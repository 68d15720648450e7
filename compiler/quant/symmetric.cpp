#include "compiler/quant/symmetric.h"

#include <algorithm>
#include <limits>

#include "compiler/support/check.h"
#include "llmc/half.h"
#include "llmc/quant/layout.h"

namespace llmc::quant {
namespace {

struct CodeFit {
  std::uint16_t scale = 0;
  float error = 0;
  std::int8_t codes[kSuper] = {};
};

/// Returns the codes of a block for the f16 nearest to the nonzero scale `wanted`, and their error.
CodeFit codes_for(std::span<const float> weights, float wanted, float lowest) {
  CodeFit result;
  wanted = std::clamp(wanted, -65504.0f, 65504.0f);
  result.scale = f32_to_f16(wanted);
  // The scale rounds to 0, but weights may be several times as large: use the smallest f16.
  if (f16_to_f32(result.scale) == 0) result.scale = wanted < 0 ? 0x8001 : 0x0001;
  const float scale = f16_to_f32(result.scale);
  for (std::size_t k = 0; k < weights.size(); ++k) {
    const float steps = weights[k] / scale, x = std::clamp(steps, lowest, -lowest - 1);
    const auto code = static_cast<std::int8_t>(x < 0 ? x - 0.5f : x + 0.5f);
    result.codes[k] = code;
    // Computed in units of the scale, so that no square exceeds the range of floats.
    const float off = steps - static_cast<float>(code);
    result.error += off * off;
  }
  return result;
}

/// Returns the least-squares scale for these codes.
float best_scale(std::span<const float> weights, const CodeFit& fit) {
  const float scale = f16_to_f32(fit.scale);
  float products = 0, squares = 0;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    const auto code = static_cast<float>(fit.codes[k]);
    products += weights[k] / scale * code;
    squares += code * code;
  }
  return squares > 0 ? scale * (products / squares) : 0;
}

}  // namespace

void encode_symmetric_row(CodedFormat format, std::span<const float> weights, ScaledRow& out) {
  LLMC_CHECK(is_symmetric(format));
  const auto lowest = static_cast<float>(coded_lowest(format));
  // Codes tried for the weight with the maximum magnitude. With the last one, this weight is
  // clipped and the others get finer steps.
  const float extremes[] = {lowest, lowest + 0.5f, lowest + 1, lowest + 2, -lowest - 1, lowest - 1};
  const std::size_t width = format.block;
  out.codes.assign(weights.size(), 0);
  out.scales.assign(ceil_div(weights.size(), width), 0);
  for (std::size_t b = 0; b < out.scales.size(); ++b) {
    const std::size_t begin = b * width;
    const auto block = weights.subspan(begin, std::min(width, weights.size() - begin));
    const auto magnitude = [](float w) { return w < 0 ? -w : w; };
    const float extreme = *std::ranges::max_element(block, {}, magnitude);
    LLMC_CHECK(magnitude(extreme) <= largest_symmetric_weight(format));
    if (extreme == 0) continue;
    CodeFit best;
    float best_error = std::numeric_limits<float>::infinity();
    const auto consider = [&](const CodeFit& candidate) {
      // Each error is in units of the candidate's scale: convert it to units of the block's largest
      // weight.
      const float step = f16_to_f32(candidate.scale) / extreme;
      const float error = candidate.error * (step * step);
      if (error < best_error) {
        best = candidate;
        best_error = error;
      }
    };
    for (const float at : extremes) {
      const CodeFit first = codes_for(block, extreme / at, lowest);
      consider(first);
      consider(codes_for(block, best_scale(block, first), lowest));
    }
    // The weights are so far below the smallest f16 that the errors exceed the range of floats: use
    // zeros.
    if (best_error == std::numeric_limits<float>::infinity()) continue;
    out.scales[b] = best.scale;
    std::copy_n(best.codes, block.size(), out.codes.begin() + static_cast<std::ptrdiff_t>(begin));
  }
}

}  // namespace llmc::quant

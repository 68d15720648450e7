#pragma once

#include <span>

#include "compiler/quant/scaled_row.h"
#include "llmc/quant/coded.h"

/// Rows of floats in coded formats without zero points (q6 is one): w[k] = d[b] * c[k],
/// b = k / block, with codes c from coded_lowest() to -coded_lowest() - 1; d is an f16 of either
/// sign.
namespace llmc::quant {

/// Returns whether rows can be encoded in the format: signed codes and f16 scales.
constexpr bool is_symmetric(CodedFormat format) {
  return format.zero == CodedZero::kNone && format.scale == CodedScale::kF16 &&
         coded_lowest(format) < 0;
}
/// Returns the maximum magnitude of a weight: that of the lowest code times the largest f16.
constexpr float largest_symmetric_weight(CodedFormat format) {
  return 65504.0f * -static_cast<float>(coded_lowest(format));
}

/// Encodes a row of any length. The format is symmetric; the weights must be finite, with
/// magnitudes of at most largest_symmetric_weight(). Tries several scales d that give the weight of
/// maximum magnitude the lowest code, a value near it, or the highest code. Improves each by least
/// squares, and chooses the one with the smallest squared error. Uses correctly rounded operations
/// in a fixed order, so the result is the same on every host. Reuses `out`'s memory.
void encode_symmetric_row(CodedFormat format, std::span<const float> weights, ScaledRow& out);

}  // namespace llmc::quant

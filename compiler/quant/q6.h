#pragma once

#include <span>

#include "compiler/quant/scaled_row.h"

/// 6-bit symmetric: w[k] = d[b] * c[k], b = k / 32, c in -32..31, d an f16 of either sign.
namespace llmc::quant {

/// Largest magnitude of a weight: 32 times the largest f16.
inline constexpr float kLargestQ6Weight = 65504.0f * 32.0f;

/// Encodes a row of any length. Weights are finite and at most kLargestQ6Weight. Of a few scales d
/// around (weight of the largest magnitude) / -32, each improved by least squares, the one with the
/// least squared error. Correctly rounded operations in a fixed order: the same on every host.
/// `out`'s memory is reused.
void encode_q6_row(std::span<const float> weights, ScaledRow& out);

}  // namespace llmc::quant

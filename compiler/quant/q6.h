#pragma once

#include <span>

#include "compiler/quant/scaled_row.h"

/// The 6-bit symmetric format: w[k] = d[b] * c[k], b = k / 32, c in -32..31; d is an f16 of either
/// sign.
namespace llmc::quant {

/// Maximum magnitude of a weight: 32 times the largest f16.
inline constexpr float kLargestQ6Weight = 65504.0f * 32.0f;

/// Encodes a row of any length. The weights must be finite, with magnitudes of at most
/// kLargestQ6Weight. Tries several scales d near (weight of maximum magnitude) / -32, improves each
/// by least squares, and chooses the one with the least squared error. Uses correctly rounded
/// operations in a fixed order, so the result is the same on every host. Reuses `out`'s memory.
void encode_q6_row(std::span<const float> weights, ScaledRow& out);

}  // namespace llmc::quant

#pragma once

#include <span>

#include "compiler/quant/scaled_row.h"

/// The 8-bit symmetric format: w[k] = d[b] * c[k], b = k / 32, c in -127..127; d is an f16 >= 0.
namespace llmc::quant {

/// Maximum magnitude of a weight: 127 times the largest f16.
inline constexpr float kLargestQ8Weight = 65504.0f * 127.0f;

/// Encodes a row of any length. The weights must be finite, with magnitudes of at most
/// kLargestQ8Weight. d is the block's maximum magnitude / 127, rounded to f16, or the next larger
/// f16 if the maximum would exceed 127.5 * d. Reuses `out`'s memory.
void encode_q8_row(std::span<const float> weights, ScaledRow& out);

}  // namespace llmc::quant

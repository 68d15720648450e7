#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// 6-bit symmetric: w[k] = d[b] * c[k], b = k / 32, c in -32..31, d an f16 of either sign.
namespace llmc::quant {

struct Q6Row {
  std::vector<std::int8_t> codes;     // one per weight
  std::vector<std::uint16_t> scales;  // d, bits of f16, one per block of 32
};

/// Largest magnitude of a weight: 32 times the largest f16.
inline constexpr float kLargestQ6Weight = 65504.0f * 32.0f;

/// Encodes a row of any length. Weights are finite and at most kLargestQ6Weight. Of a few scales d
/// around (weight of the largest magnitude) / -32, each improved by least squares, the one with the
/// least squared error. Correctly rounded operations in a fixed order: the same on every host.
/// `out`'s memory is reused.
void encode_q6_row(std::span<const float> weights, Q6Row& out);

void decode_q6_row(const Q6Row& row, std::span<float> weights);

}  // namespace llmc::quant

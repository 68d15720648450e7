#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// 8-bit symmetric: w[k] = d[b] * c[k], b = k / 32, c in -127..127, d an f16 >= 0.
namespace llmc::quant {

struct Q8Row {
  std::vector<std::int8_t> codes;     // one per weight
  std::vector<std::uint16_t> scales;  // d, bits of f16, one per block of 32
};

/// Largest magnitude of a weight: 127 times the largest f16.
inline constexpr float kLargestQ8Weight = 65504.0f * 127.0f;

/// Encodes a row of any length. Weights are finite and at most kLargestQ8Weight. d is the block's
/// largest magnitude / 127, rounded to an f16 that still reaches it within half a step. `out`'s
/// memory is reused.
void encode_q8_row(std::span<const float> weights, Q8Row& out);

void decode_q8_row(const Q8Row& row, std::span<float> weights);

}  // namespace llmc::quant

#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// A row of symmetric integer codes with one scale per block: w[k] = d[b] * c[k], b = k / block.
namespace llmc::quant {

struct ScaledRow {
  std::vector<std::int8_t> codes;     // one per weight
  std::vector<std::uint16_t> scales;  // bits of d, an f16, one per block
};

/// Decodes a row with blocks of 32. `weights` must have as many elements as the row has codes.
void decode_scaled_row(const ScaledRow& row, std::span<float> weights);

}  // namespace llmc::quant

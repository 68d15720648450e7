#pragma once

#include <cstdint>
#include <vector>

/// A row of symmetric integer codes with one scale per block: w[k] = d[b] * c[k], b = k / block.
namespace llmc::quant {

struct ScaledRow {
  std::vector<std::int8_t> codes;     // one per weight
  std::vector<std::uint16_t> scales;  // bits of d, an f16, one per block
};

}  // namespace llmc::quant

#include "compiler/quant/scaled_row.h"

#include "compiler/support/check.h"
#include "llmc/half.h"
#include "llmc/quant/layout.h"

namespace llmc::quant {

void decode_scaled_row(const ScaledRow& row, std::span<float> weights) {
  LLMC_CHECK(weights.size() == row.codes.size());
  for (std::size_t k = 0; k < weights.size(); ++k)
    weights[k] = f16_to_f32(row.scales[k / kBlock]) * static_cast<float>(row.codes[k]);
}

}  // namespace llmc::quant

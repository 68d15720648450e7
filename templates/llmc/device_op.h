#pragma once

#include "llmc/device.h"
#include "llmc/target.h"

namespace llmc {
inline namespace LLMC_ISA {

/// An llmc_device_op with defaults for the fields that most operations leave out.
struct DeviceOp {
  uint16_t kind, function = LLMC_FUNCTION_IDENTITY, norm = LLMC_NORM_NONE, quantized = 0;
  uint32_t n, k = 0, parts = 1;
  float epsilon = 0, value = 0;
  uint64_t x = LLMC_DEVICE_NONE, y = LLMC_DEVICE_NONE, out = LLMC_DEVICE_NONE;
  llmc_device_matrix matrix = kNoMatrix, matrix_2 = kNoMatrix;
  uint64_t bias = LLMC_DEVICE_NONE;
  uint64_t norm_weight = LLMC_DEVICE_NONE, norm_bias = LLMC_DEVICE_NONE;
  uint64_t row = LLMC_DEVICE_NONE, number = LLMC_DEVICE_NONE;

  constexpr operator llmc_device_op() const {
    return {kind, function, norm,   quantized, n,    k,           parts,     epsilon, value, x,
            y,    out,      matrix, matrix_2,  bias, norm_weight, norm_bias, row,     number};
  }

  static constexpr llmc_device_matrix kNoMatrix = {LLMC_DEVICE_NONE, 0, 0, 0, 0, 0, 0, 0, 0};
};

}  // namespace LLMC_ISA
}  // namespace llmc

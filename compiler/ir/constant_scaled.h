#pragma once

#include "compiler/ir/constant.h"

namespace llmc::ir {

/// Multiplies a matrix, converted to f32, by `factor`. For a matrix made by make_quantized, returns
/// scaled_rows(), which multiplies the scales. Otherwise returns a lazy view that rounds each
/// product to f32. The rank must be 2 (LLMC_CHECK).
ConstantPtr scaled(ConstantPtr matrix, float factor);

}  // namespace llmc::ir

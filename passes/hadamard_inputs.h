#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Quantized products transform their inputs, so that these have no outliers (ir/hadamard.h).
///
///   linear x, W {format = q8}  ->  linear x, hadamard(W, 256) {format = q8, hadamard = 256}
///
/// The same for expert_linear and qkv_projection, in loops, too. Unchanged if the format is not
/// quantized, if W is not a constant or parameter, if rows of W are quantized in the model (their
/// codes may be preserved), or if no columns of W can be transformed.
Result<ir::Graph> hadamard_inputs(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Makes quantized products transform their inputs to the Hadamard basis, which spreads outliers
/// over all elements (ir/hadamard.h). Their weights are transformed accordingly.
///
///   linear(x, W) {format = q8}  ->  linear(x, hadamard(W, 256)) {format = q8, hadamard = 256}
///
/// Applies to expert_linear and qkv_projection, too, and to the bodies of loops. Unchanged if the
/// format is not quantized, if W is not a constant or parameter, if rows of W are quantized in the
/// model (their codes may be preserved), or if no columns of W can be transformed.
Result<ir::Graph> hadamard_inputs(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

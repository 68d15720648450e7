#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Fuses an addition after a linear layer into it as its epilogue.
///
///   add(linear(x, W, b?), r)             ->  linear(x, W, b?, -, residual r)      either side
///   add(linear(…, residual linear(y)), r)  ->  linear(…, residual linear(y, residual r))
///
/// The second is x + attention + feed-forward of a parallel block. Unchanged if a layer has other
/// users, is gated, or has a residual that is not such a layer, or if r is a constant or of another
/// type (a broadcast).
Result<ir::Graph> fuse_residual(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

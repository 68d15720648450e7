#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Fuses an addition into the preceding linear layer, as its epilogue.
///
///   add(linear(x, W, b?), r)             ->  linear(x, W, b?, -, residual r)      either side
///   add(linear(…, residual linear(y)), r)  ->  linear(…, residual linear(y, residual r))
///
/// The second pattern is x + attention + feed-forward in a parallel block. Unchanged if a layer has
/// other users, is gated, or has a residual that is not such a layer, or if r is a constant, a view
/// of one, or has another type (a broadcast).
Result<ir::Graph> fuse_residual(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

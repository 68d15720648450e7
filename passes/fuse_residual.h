#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// The addition behind a linear layer becomes its epilogue.
///
///   add(linear(x, W, b?), r)             ->  linear(x, W, b?, -, residual r)      either side
///   add(linear(…, residual linear(y)), r)  ->  linear(…, residual linear(y, residual r))
///
/// The second is x + attention + feed-forward of a parallel block: two additions, no stage.
/// Unchanged when a layer's result is read elsewhere, when it is gated, when it has a residual that
/// is no such layer, or when r is a constant or of another type (a broadcast).
Result<ir::Graph> fuse_residual(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

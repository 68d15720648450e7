#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// The addition behind a linear layer becomes its epilogue.
///
///   add(linear(x, W, b?), r)  ->  linear(x, W, b?, -, residual r)      either side
///
/// Unchanged when the layer's result is read elsewhere, when it has a residual or an activation
/// already, or when r is a constant or of another type (a broadcast).
Result<ir::Graph> fuse_residual(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

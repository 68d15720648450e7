#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Fuses an activation into the preceding linear layer as its epilogue.
///
///   f(linear(x, W, b?))  ->  linear(x, W, b?) {function = f}      f: an ir::ActivationFn
///
/// Unchanged if the layer has other users, an activation or a residual, or is gated.
Result<ir::Graph> fuse_activation(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// An activation becomes the epilogue of the layer before it.
///
///   f(linear(x, W, b?))  ->  linear(x, W, b?) {function = f}      f: silu, gelu, gelu_tanh, relu,
///   …
///
/// Unchanged when the layer is read elsewhere, or has an activation or a residual already.
Result<ir::Graph> fuse_activation(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

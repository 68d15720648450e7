#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// The gated activation becomes one node, whichever way its factors are multiplied, and so does
/// SiLU, which exporters write as a product.
///
///   gate * sigmoid(gate) * up  ->  gated_activation(gate, up) {fn = silu}
///   fn(gate) * up              ->  gated_activation(gate, up) {fn}
///   x * sigmoid(x)             ->  silu(x)
///
/// Unchanged when gate and up differ in type (a broadcast), are not f32, when up is a constant, or
/// when fn(gate) is read elsewhere too.
Result<ir::Graph> fuse_gated_activation(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

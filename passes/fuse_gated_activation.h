#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Fuses a gated activation, with factors in any order, into one node. Also fuses SiLU that is
/// written as a product.
///
///   gate * sigmoid(gate) * up  ->  gated_activation(gate, up) {fn = silu}
///   fn(gate) * up              ->  gated_activation(gate, up) {fn}
///   x * sigmoid(x)             ->  silu(x)
///
/// Unchanged if gate and up differ in type (a broadcast) or are not f32, and in the second pattern
/// also if up is a constant or fn(gate) has other users.
Result<ir::Graph> fuse_gated_activation(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

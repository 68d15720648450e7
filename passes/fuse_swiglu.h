#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// The gated activation becomes one node, whichever way the three factors are multiplied.
///
///   gate * sigmoid(gate) * up  ->  swiglu(gate, up)
///
/// Unchanged when gate and up differ in type (a broadcast), or are not f32.
Result<ir::Graph> fuse_swiglu(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

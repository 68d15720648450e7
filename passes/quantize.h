#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Sets the storage format of each weight matrix.
///
///   linear(…), qkv_projection(…)  ->  the same with {format}
///
/// Layers get PassOptions::weights, the head (the layer whose result, through views, is the first
/// output of the graph) PassOptions::head. A format that is set stays. Norm weights and biases are
/// f32. Weights are encoded when they are packed.
Result<ir::Graph> quantize(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

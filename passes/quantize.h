#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Decides how each weight matrix is stored.
///
///   linear(…), qkv_projection(…)  ->  the same with {format}
///
/// Layers get PassOptions::weights, the head (the layer whose result is, but for views, the first
/// output of the graph) PassOptions::head. A layer that has a format keeps it. Norm weights and
/// biases stay f32. The bytes are made when weights are packed.
Result<ir::Graph> quantize(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

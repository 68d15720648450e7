#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Fuses a softmax that is written as separate operators, as onnxruntime writes softmax of f16.
///
///   e = exp(x - reduce_max(x, axis, keep)) ; y = e / reduce_sum(e, axis, keep)
/// ->
///   y = softmax(x, axis)
///
/// Unchanged if maximum and sum are over different axes, or over several.
Result<ir::Graph> fuse_softmax(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

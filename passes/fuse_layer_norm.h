#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Fuses layer normalization into one node.
///
///   d = x - reduce_mean(x, last axis, keep) ; y = rms_norm(d, weight)    (fuse_rms_norm.h)
///   z = y + bias                                          (bias constant, either side; f32[n])
/// ->
///   z = layer_norm(x, weight, bias?)
///
/// Runs after fuse_rms_norm, which fuses d / sqrt(mean(d^2) + epsilon) * weight. Unchanged if the
/// mean is over other axes.
Result<ir::Graph> fuse_layer_norm(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

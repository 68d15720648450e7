#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// RMS normalisation becomes one node.
///
///   s = pow(x, 2) | mul(x, x)
///   m = reduce_mean(s, last axis, keep) + epsilon
///   n = x * (1 / sqrt(m)) | x * reciprocal(sqrt(m)) | x / sqrt(m) | x * pow(m, -0.5)
///   y = n * weight                                   (weight constant, either side; f32[n])
/// ->
///   y = rms_norm(x, weight)
///
///   rms_norm(transpose(x), w), rows kept  ->  transpose(rms_norm(x, w))
///
/// The mean may be a sum divided by the row's size. Without a constant weight behind it, `n`
/// becomes rms_norm with a weight of ones. Unchanged when the mean is over other axes, when epsilon
/// is no scalar or negative, or when any operand is not f32.
Result<ir::Graph> fuse_rms_norm(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

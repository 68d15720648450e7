#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// RMS normalisation becomes one node.
///
///   s = pow(x, 2) | mul(x, x)
///   m = reduce_mean(s, last axis) + epsilon
///   n = x * (1 / sqrt(m)) | x * reciprocal(sqrt(m)) | x / sqrt(m) | x * pow(m, -0.5)
///   y = n * weight                                   (weight constant, either side; f32[n])
/// ->
///   y = rms_norm(x, weight)
///
///   rms_norm(transpose(x), w), rows kept  ->  transpose(rms_norm(x, w))
///
/// epsilon may be absent (0). Scalar factors may stand anywhere: on the sum of squares (so that a
/// sum is as good as a mean, and a root of a sum as good as one of a mean), on the root, on its
/// inverse, and between n and the weight; they become factors of the weight, which may also stand
/// before the division. The reduced axis may be dropped and put back by a view. Without a constant
/// weight after it, `n` becomes rms_norm with a weight of ones. where(r == 0, 0, x / r), which is
/// LpNormalization, becomes an rms_norm whose epsilon is the least positive float.
///
/// Unchanged when the reduction is over other axes, when epsilon is no scalar, negative, or added
/// after the root, or when any operand is not f32.
Result<ir::Graph> fuse_rms_norm(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Fuses RMS normalization into one node.
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
/// epsilon may be absent (0). Scalar factors are accepted on the sum of squares (a sum is a mean
/// with a factor), on the root, on its inverse, and between n and the weight; they are multiplied
/// into the weight. The weight may also be applied before the division. The reduced axis may be
/// removed and reinserted by a view. Without a constant weight, `n` becomes rms_norm with a weight
/// of ones. where(r == 0, 0, x / r), which is LpNormalization, becomes an rms_norm whose epsilon is
/// the smallest positive float.
///
/// Unchanged if the reduction is over other axes, epsilon is not a scalar, is negative or is added
/// after the root, or an operand is not f32.
Result<ir::Graph> fuse_rms_norm(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

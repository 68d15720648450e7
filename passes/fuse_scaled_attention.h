#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Replaces attention without a cache, as encoders have it, by one operator, for which the scores
/// of all queries are never stored together:
///
///   s = q . k              scaled by numbers, then
///   e = s + bias   or   where(mask, s, fill)   or   where(mask, fill, s), or nothing
///   y = softmax(e, -1) . v
///
///   y = scaled_attention q, k, v, bias, mask
///
/// Scores and probabilities must have no other reader, and bias and mask must not spread them over
/// queries or keys. A fill of 0 is left alone. In decoders attention is fuse_attention's.
Result<ir::Graph> fuse_scaled_attention(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Fuses attention without a cache, as in encoders, into one operator. Its implementation does not
/// store the scores of all queries at the same time.
///
///   s = q . k              scaled by numbers, then
///   e = s + bias   or   where(mask, s, fill)   or   where(mask, fill, s), or nothing
///   y = softmax(e, -1) . v
/// ->
///   y = scaled_attention(q, k, v, bias?, mask?)
///
/// Unchanged if scores or probabilities have other users, if bias or mask broadcast them over
/// queries or keys, or for a fill of 0. Decoders are unchanged (see fuse_attention).
Result<ir::Graph> fuse_scaled_attention(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Fuses attention without a cache, as in encoders, into one operator. Its implementation does not
/// store the scores of all queries at the same time.
///
///   s = q . k              scaled by numbers, also q or k
///   s = c tanh(s / c)      only with a softcap c
///   s = s + bias           any number of terms, scaled after that by 1e-4 to 1e4 or not, then
///   s = where(mask, s, fill)   or   where(mask, fill, s), one or more with the same fill
///   p = softmax(s, -1)     of s - max(s), too
///   p = where(is_nan(p), 0, p), or not
///   y = p . v
/// ->
///   y = scaled_attention(q, k, v, bias?, mask?)
///
/// Views that add or remove dims of 1 may be between these operators. Unchanged if scores or
/// probabilities have other users, if bias or mask broadcast them over queries or keys, if a bias
/// is added after a mask, for a fill of 0, and for sinks and bounds of scores. Decoders are
/// unchanged (see fuse_attention).
Result<ir::Graph> fuse_scaled_attention(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Fuses attention without a cache, as in encoders, into one operator, which does not store the
/// scores of all queries at the same time.
///
///   s = q . k              q, k or s may be multiplied by numbers
///   s = c tanh(s / c)      only with a softcap c
///   s = s + bias           any number of terms; the product of the later factors of s must be
///                          within 1e-2 … 1e4
///   s = where(mask, s, fill)   or   where(mask, fill, s), one or more with the same fill
///   p = softmax(s, -1)     or softmax(s - max(s), -1)
///   p = where(is_nan(p), 0, p)   optional
///   y = p . v
/// ->
///   y = scaled_attention(q, k, v, bias?, mask?)
///
/// Views that add or remove dims of 1 may be between these operators. Unchanged if scores or
/// probabilities have other users, if bias or mask broadcast them over queries or keys, if a bias
/// is added after a mask, if the fill is 0, or if there are sinks or a bound of the scores.
/// Decoders are unchanged (see fuse_attention).
Result<ir::Graph> fuse_scaled_attention(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

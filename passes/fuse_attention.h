#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Causal attention over a cache, with the cache's update, becomes one node.
///
///   keys    = concat(past[0], k) along the sequence     values = concat(past[1], v)
///   present = concat(unsqueeze(keys), unsqueeze(values)) on axis 0
///   scores  = scale * Q K^T + mask, or where(allowed, scale * Q K^T, -large)
///   out     = softmax(scores) V            past f32[2, 1, P, kv_heads, D] or [2, 1, kv_heads, P,
///   D]
/// ->
///   out, present = attention(q, k, v, past)     (and a reshape and transpose to the old layout)
///
/// Matched: past[i] as gather, slice or split of axis 0; Q, K, V through any transposes, added or
/// removed dims of 1 and scalar factors (on Q, K or the scores, as mul or div); kv heads repeated
/// by unsqueeze/reshape + expand + reshape, or broadcast when there is one; a guard
/// where(is_nan(p), 0, p) behind the softmax. The mask must be causal (causal_mask.h says what
/// counts); the graph input `attention_mask` is dropped when nothing else reads it.
///
/// Unchanged otherwise: no mask with more than one token, softcap, other bias, batch other than 1,
/// repeated heads in another order, keys and values from different caches.
Result<ir::Graph> fuse_attention(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

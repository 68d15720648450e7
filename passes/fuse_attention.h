#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Fuses causal attention over a KV cache, with the cache's update, into one node.
///
///   keys    = concat(past[0], k) along the sequence     values = concat(past[1], v)
///   present = concat(unsqueeze(keys), unsqueeze(values)) on axis 0
///   raw     = scale * Q K^T, or with a softcap c * tanh(scale * Q K^T / c)
///   scores  = raw + mask, or where(allowed, raw, -large)
///   out     = softmax(scores) V
///   where past is f32[2, 1, P, kv_heads, D] or f32[2, 1, kv_heads, P, D]
/// ->
///   out, present = attention(q, k, v, past, bias?, sinks?)     (and a reshape and transpose to the
///                                                              original layout)
///
/// Heads of keys or values may be narrower than those of the cache: then the graph concatenates
/// slice(past[i], 0 : D) and pads the result for `present`, and the operands of attention are
/// padded with zeros.
///
/// Accepted variants:
/// - past[i] as gather, slice or split of axis 0, also transposed before and after concatenation
/// - Q, K, V through any transposes, added or removed dims of 1 and scalar factors (on Q, K or the
///   scores, as mul or div)
/// - kv heads repeated by views (expand, tile, gather), or broadcast if there is a single kv head
///   or a group axis
/// - a bound max(scores, x), x <= -6e4
/// - a guard where(is_nan(p), 0, p) after the softmax
///
/// The intersection of all masks must be causal (mask_analysis.h). It may be limited to a sliding
/// window, or to the chunk of the query; either becomes an attribute. Other added terms become
/// `bias` f32[heads, context] if, besides the head, they depend only on the distance of query and
/// key or only on the key, like relative position bias and ALiBi (position_bias.h). A constant
/// score of one more key for each head, which is dropped after the softmax (attention sink),
/// becomes `sinks`. The graph input `attention_mask` is removed if it has no other users.
///
/// Otherwise the graph is unchanged, for example for more than one query without a mask, another
/// bias, a mask or bias before the softcap, a batch other than 1, heads repeated in another order,
/// or keys and values from different caches. Plain graphs are unchanged.
Result<ir::Graph> fuse_attention(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

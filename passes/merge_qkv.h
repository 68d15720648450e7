#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Merges the three projections of an attention, with their rotation, into one node.
///
///   q = rope(reshape(linear(x, Wq, bq?)), p, f)   k = rope(reshape(linear(x, Wk, bk?)), p, f)
///   v = reshape(linear(x, Wv, bv?))               attention(q, k, v, past)
/// ->
///   q, k, v = qkv_projection(x, [Wq; Wk; Wv], [bq; bk; bv]?, -, p, f)
///
/// RMS norms of each head of q and of k, before the rotation and with the same epsilon, are
/// included: qkv_projection(…, q_norm_weight, k_norm_weight) {qk_norm_epsilon}.
///
/// Rows are stacked lazily. Ropes are optional. Missing biases become zeros if another projection
/// has one. Unchanged if the x differ, a value on the way has other users, only one of q and k is
/// rotated, they are rotated differently, or another node is in between (such as a norm of only one
/// of them).
Result<ir::Graph> merge_qkv(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

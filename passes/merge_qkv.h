#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Merges the three projections of an attention and their RoPE into one node.
///
///   q = rope(reshape(linear(x, Wq, bq?)), p, f)   k = rope(reshape(linear(x, Wk, bk?)), p, f)
///   v = reshape(linear(x, Wv, bv?))               attention(q, k, v, past)
/// ->
///   q, k, v = qkv_projection(x, [Wq; Wk; Wv], [bq; bk; bv]?, -, p, f)
///
/// RMS norms of each head of q and of k, before the rotation and with the same epsilon, are
/// included: qkv_projection(…, q_norm_weight, k_norm_weight) {qk_norm_epsilon}.
///
/// Rows are stacked lazily. RoPE is optional. Missing biases become zeros if another projection has
/// a bias. Unchanged if the x or the element types of the weights differ, an intermediate value has
/// other users, q and k are not rotated in the same way, or there is another node in between (such
/// as a norm of only q or only k).
Result<ir::Graph> merge_qkv(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

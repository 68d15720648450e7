#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// The three projections before an attention become one stage, with their rotation.
///
///   q = rope(reshape(linear(x, Wq, bq?)), p, f)   k = rope(reshape(linear(x, Wk, bk?)), p, f)
///   v = reshape(linear(x, Wv, bv?))               attention(q, k, v, past)
/// ->
///   q, k, v = qkv_projection(x, [Wq; Wk; Wv], [bq; bk; bv]?, -, p, f)
///
/// An RMS norm of each head of q and of k, before the rotation and with one epsilon, goes with
/// them: qkv_projection(…, q_norm_weight, k_norm_weight) {qk_norm_epsilon}.
///
/// Rows are stacked lazily. Without ropes on q and k the stage has none. Biases that only some of
/// the three have are filled up with zeros. Unchanged when the x differ, when one of the values is
/// read elsewhere, when only one of q and k is rotated or they are rotated differently, or when
/// something else (a norm of only one of them) stands in between.
Result<ir::Graph> merge_qkv(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

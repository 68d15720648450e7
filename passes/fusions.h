#pragma once

#include "passes/pass.h"

/// Passes that fuse operators into one node. docs/passes.md explains their order; kPipeline says
/// which run on decoders or on plain graphs only.
namespace llmc::passes {

// ---- Softmax and norms

/// Fuses a softmax that is written as separate operators, as onnxruntime writes softmax of f16.
///
///   e = exp(x - reduce_max(x, axis, keep)) ; y = e / reduce_sum(e, axis, keep)
/// ->
///   y = softmax(x, axis)
///
/// Unchanged if maximum and sum are over different axes, or over several.
Result<ir::Graph> fuse_softmax(ir::Graph graph, const PassContext& context);

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

/// Fuses layer normalization into one node.
///
///   d = x - reduce_mean(x, last axis, keep) ; y = rms_norm(d, weight)    (fuse_rms_norm)
///   z = y + bias                                          (bias constant, either side; f32[n])
/// ->
///   z = layer_norm(x, weight, bias?)
///
/// Runs after fuse_rms_norm, which fuses d / sqrt(mean(d^2) + epsilon) * weight. Unchanged if the
/// mean is over other axes.
Result<ir::Graph> fuse_layer_norm(ir::Graph graph, const PassContext& context);

// ---- Attention

/// Fuses rotary position embedding into one node.
///
///   x f32[1, S, heads, D] or [1, heads, S, D], and a value y of the same type each of whose
///   elements along D is, for pairs (i, j) of the first rotary_dim elements,
///     y_i = x_i cos(p f) - x_j sin(p f)      y_j = x_j cos(p f) + x_i sin(p f)
///   and x_k for k >= rotary_dim
/// ->
///   y = rope(x, positions, frequencies f32[rotary_dim / 2])     j = i + rotary_dim/2, or with
///                                                               `interleaved` i even, j = i + 1
///
/// The pass does not compare patterns. It expresses the elements of each value along D as sums of
/// +-x_i * {1, cos, sin}, through views (ir/index_map.h), Neg, Mul, Add and Sub. Any combination of
/// these operators that computes a rotation therefore matches (head_elements.h).
///
/// Angles p f are mul or matmul of cast(positions) and frequencies in either order, through views
/// (rope_factors.h). cos and sin must not be multiplied by a factor. Tables are gather(table,
/// positions) on axis 0 of constants [max_positions, n] for cos and sin. They become one
/// f32[max_positions, rotary_dim] constant (cos | sin), and the node has `table`.
///
/// If the positions are the input of kind kPositionAxes i64[n, S], the rope has the attribute
/// `position_axes`: the row of each frequency. If anything but such rotations reads the elements of
/// this input, it is first replaced by n copies of the input of kind kPositions, the positions of
/// text.
///
/// rope(transpose(x)) of heads-first x becomes transpose(rope(x)), so that the rotation reads the
/// rows of the projection's result. Unchanged if a rotation differs from the above in sign or
/// pairing, positions are not integers with one element for each token, or the batch is not 1.
Result<ir::Graph> fuse_rope(ir::Graph graph, const PassContext& context);

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
/// becomes `sinks`. The input of kind kMask is removed if it has no other users.
///
/// Otherwise the graph is unchanged, for example for more than one query without a mask, another
/// bias, a mask or bias before the softcap, a batch other than 1, heads repeated in another order,
/// or keys and values from different caches.
Result<ir::Graph> fuse_attention(ir::Graph graph, const PassContext& context);

/// Fuses the attention of a decoder to the source of an encoder-decoder. Keys and values are a
/// graph input, source f32[2, kv_heads, T, D]:
///
///   softmax(s + masks) . values     s = scale * q . keys^T, or with a softcap c * tanh(s / c);
///                                   keys = source[0], values = source[1]
/// ->
///   cross_attention(q, source)
///
/// All masks must be known to hide no key: the runtime encodes one source without padding. Heads
/// may be repeated, and views may be between any of these operators. Otherwise unchanged.
Result<ir::Graph> fuse_cross_attention(ir::Graph graph, const PassContext& context);

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
Result<ir::Graph> fuse_scaled_attention(ir::Graph graph, const PassContext& context);

// ---- Activations and experts

/// Fuses GELU (Hendrycks & Gimpel 2016) into one node, and a sigmoid that is written with exp.
///
///   c * x * (a + b * erf(s * x))       c a = c b = 1/2, s = 1 / sqrt(2)       -> gelu(x)
///   c * x * (a + b * tanh(p(x)))       p(x) = sqrt(2/pi) (x + 0.044715 x^3)   -> gelu_tanh(x)
///   1 / (1 + exp(-x))  -> sigmoid(x)         y / (1 + exp(-x))  -> y * sigmoid(x)
///
/// Factors may have any order and grouping. Powers may be pow or products. Constants may differ by
/// the rounding of f32 arithmetic and of narrower float types in files.
Result<ir::Graph> fuse_gelu(ir::Graph graph, const PassContext& context);

/// Fuses a gated activation, with factors in any order, into one node. Also fuses SiLU that is
/// written as a product.
///
///   gate * sigmoid(gate) * up  ->  gated_activation(gate, up) {fn = silu}
///   fn(gate) * up              ->  gated_activation(gate, up) {fn}
///   x * sigmoid(x)             ->  silu(x)
///
/// Unchanged if gate and up differ in type (a broadcast) or are not f32, and in the second pattern
/// also if up is a constant or fn(gate) has other users.
Result<ir::Graph> fuse_gated_activation(ir::Graph graph, const PassContext& context);

/// Converts products with the weights of chosen experts to ExpertLinear:
///
///   gather(W[E, N, K], ids[…]) . x[…, K, 1]  ->  expert_linear(x[…, K], W[E * N, K], ids)
///   x[…, 1, K] . gather(W[E, K, N], ids[…])  ->  the same with each expert's matrix transposed
///
/// The gathered matrices may be transposed after the lookup instead. A bias gather(b[E, N], ids)
/// that is added to the result is included. The ids must be indices of a TopK along a dim of E
/// elements, or clamped to 0 … E - 1. Weights may be narrower floats with a Cast to f32. Unchanged
/// if N is not a multiple of 8.
Result<ir::Graph> fuse_experts(ir::Graph graph, const PassContext& context);

// ---- Projections

/// Moves a factor after a product with a quantized matrix into the matrix's scales.
///
///   matmul(x, quantized(codes, s, z)) * c  ->  matmul(x, quantized(codes, s c, z))
///
/// c is an f32 constant: a scalar, or one element for each column. Graphs with dynamically
/// quantized activations contain this pattern after the importer has replaced the integer product
/// by a float product. Unchanged if the product has other users, the matrix is not quantized, or c
/// has another shape.
Result<ir::Graph> fuse_dynamic_quant(ir::Graph graph, const PassContext& context);

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

/// Merges the two projections of a gated feed-forward into one.
///
///   gated_activation(linear(x, Wg, bg?), linear(x, Wu, bu?)) {fn}
///     ->  linear(x, [Wg; Wu], [bg; bu]?) {fn, gated}
///
/// Rows are stacked lazily. A missing bias becomes zeros if the other projection has one. Unchanged
/// if the x or the element types of the weights differ, or a projection has other users, a norm, an
/// activation or a residual.
Result<ir::Graph> merge_gate_up(ir::Graph graph, const PassContext& context);

/// Fuses an activation into the preceding linear layer as its epilogue.
///
///   f(linear(x, W, b?))  ->  linear(x, W, b?) {function = f}      f: an ir::ActivationFn
///
/// Unchanged if the layer has other users, an activation or a residual, or is gated.
Result<ir::Graph> fuse_activation(ir::Graph graph, const PassContext& context);

/// Fuses a normalization into the projections that read it, as their prologue.
///
///   linear(rms_norm(x, w), …)          ->  linear(x, …, w) {norm_epsilon}
///   qkv_projection(rms_norm(x, w), …)  ->  qkv_projection(x, …, w) {norm_epsilon}
///   layer_norm(x, w, b?) likewise      ->  … {norm_epsilon, norm_kind = layer}
///
/// If several projections read the norm, each repeats it, which costs less than the barrier of a
/// separate stage. Unchanged if another node reads the norm, it is a graph output, its weight or
/// bias is not a constant, or a projection already has a norm.
Result<ir::Graph> fuse_norm(ir::Graph graph, const PassContext& context);

/// Fuses an addition into the preceding linear layer, as its epilogue.
///
///   add(linear(x, W, b?), r)             ->  linear(x, W, b?, -, residual r)      either side
///   add(linear(…, residual linear(y)), r)  ->  linear(…, residual linear(y, residual r))
///
/// The second pattern is x + attention + feed-forward in a parallel block. Unchanged if a layer has
/// other users, is gated, or has a residual that is not such a layer, or if r is a constant, a view
/// of one, or has another type (a broadcast).
Result<ir::Graph> fuse_residual(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

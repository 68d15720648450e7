#pragma once

#include "passes/pass.h"

/// Passes that simplify, replace or move operators. docs/passes.md explains their order; kPipeline
/// says which run on decoders or on plain graphs only.
namespace llmc::passes {

// ---- Constants and redundant nodes

/// Replaces values that do not depend on graph inputs by constants.
///
///   integers of rank <= 1 whose elements are known numbers (shapes)      -> constant
///   node whose operands are all constants, result within the limit       -> constant
///   transpose(W) {perm = [1, 0]} of a larger constant                    -> constant, lazy view
///   reshape(x, computed)  -> reshape(x, constant)  where the result's dims need at most one -1
///   expand(x, computed)   -> expand(x, constant)   where each dim is a number or that of x
///
/// Nodes with an operand or a result of more than PassOptions::fold_limit_elements elements are not
/// evaluated, so this pass reads no weight matrices above this size. The nodes that one run
/// evaluates have at most 2^24 result elements together. Nodes with a quantized matrix are not
/// evaluated, nor is an expand of more than 4096 elements that only gather_elements reads, as
/// indices. Graph outputs do not become constants.
Result<ir::Graph> fold_constants(ir::Graph graph, const PassContext& context);

/// Replaces matrix products of constants, and values computed from them, by constants. A constant
/// is evaluated when it is first read. DeBERTa, for example, multiplies its table of relative
/// positions with matrices of each layer.
///
///   add(matmul(layer_norm(table), w), b)  ->  constant
///
/// Results have at most 2^20 elements, and four times those of their operands; together, 2^25.
/// Unchanged if weights are rounded: the product is then fast, and its result would be large beside
/// the weights.
Result<ir::Graph> fold_products(ir::Graph graph, const PassContext& context);

/// Replaces comparisons between the length of the text and a number. Exporters write them for
/// models that choose between tables of frequencies (LongRoPE).
///
///   n = past + seq + c: reduce_max(position_ids) + 1, the last position, the size of a mask, …
///   n < k, n <= k, n > k, n >= k, with the number k on either side
/// ->
///   constant                      where all lengths from 1 to PassOptions::context agree
///   last_position + c + 1 > k     otherwise
///
/// `last_position` i64[] is a new graph input: the position of the last token that the caller
/// appends. The runtime provides it, because a call of the compiled code may process only some of
/// these tokens. Only comparisons with a single result element are replaced; those of masks have
/// more.
Result<ir::Graph> choose_by_length(ir::Graph graph, const PassContext& context);

/// Removes nodes without effect and merges chains of views.
///
///   identity, cast to the same type, reshape | squeeze | unsqueeze | expand | tile | slice to the
///     same dims (slice: steps of 1), transpose by the identity, concat or split of one,
///     scatter_nd of nothing                       -> x
///   two of reshape, squeeze, unsqueeze in a row   -> one reshape, or x
///   transpose(transpose(x))                       -> one transpose, or x
///   split(concat(a, b, …)) into the operands      -> a, b, …
///   concat of all parts of a split, in order      -> operand of the split
///   concat with parts of size 0                   -> concat of the others, or x
///   slice(concat(…)) of exactly one part          -> that part
///   slice(pad(x)) of exactly x, padded at the end -> x
///   gather(concat(…), constant scalar) of a part of size 1 on that axis -> squeeze(part)
///   where(constant of one element, x, y)          -> x or y
///   x * 1, x / 1, x - 0, pow(x, 1), neg(neg(x))   -> x
///   slice of the last row, x[-1:] on a symbolic dim but past -> gather(x, [-1])
///   slice of the first token's row, x[0:1]        -> gather(x, [0])
///   gather_elements(x, column repeated along the axes after it), where the axes before it are 1
///                                                 -> gather of rows
///   gather_nd(x, indices of one component)        -> gather along the first axis
///   gather_elements(equal integers, indices)      -> constant_of_shape(shape(indices))
///   scatter_nd, scatter_elements that overwrites a block, x[:, a:b] = y
///                                                 -> concat of the part before, y, the part after
///   the same with a step, x[:, a:b:k] = y         -> gather(concat(x, y), indices)
///
/// x + 0 is kept, because it changes -0 to 0.
Result<ir::Graph> simplify(ir::Graph graph, const PassContext& context);

/// Common subexpression elimination: replaces nodes with equal operators and equal operands by one
/// node.
///
///   a = op(x, y) {…} ; b = op(x, y) {…}  ->  a for both
///
/// Constants are equal if element type, dims and bytes are equal. Constants of more than 64 KiB are
/// equal only if they are the same object. Loops are never equal, and two graph outputs keep
/// separate nodes. Example: each layer of an export computes the same RoPE angles, and the pass
/// keeps one copy.
Result<ir::Graph> eliminate_common(ir::Graph graph, const PassContext& context);

/// Dead code elimination: removes nodes on which no output depends. Keeps all graph inputs.
Result<ir::Graph> eliminate_dead(ir::Graph graph, const PassContext& context);

// ---- Experts

/// Computes for all tokens what a graph computes for the tokens that NonZero selects. Exporters
/// write such graphs for mixtures of experts whose loop over the experts is unrolled.
///
///   slots, tokens = non_zero(mask)             mask[slots, T], mask[T, slots] or mask[T]
///   y = f(gather(x, tokens), gather(w, tokens * S + slots))    or gather_nd(w, [tokens, slots])
///   scatter_elements(data, tokens, y)          also with reduction add, and scatter_nd
///     where x is [T, …], w has T * S elements, and S is the number of slots
/// ->
///   chosen = where(any(mask), f(x, sum of where(mask, w, 0) over the slots), data)
///   or data + where(any(mask), …, 0) with reduction add
///
/// f: elementwise operators, products with matrices, and views, reductions and softmax that do not
/// mix rows. Each token must be selected at most once: the mask is mask[T], or it compares one
/// number with the indices of TopK, which are distinct. Results are bit-identical to those of the
/// selection, except that a -0 may become 0. Unchanged otherwise.
Result<ir::Graph> dense_rows(ir::Graph graph, const PassContext& context);

/// Computes only the chosen experts of a graph that computes all experts and adds up their results.
/// Each result is multiplied by a routing factor, which is 0 for experts that are not chosen:
///
///   ids[…, k] = indices of top_k(…)                over E elements
///   w[…, E] = 0 except at the ids                  scatter_elements, one_hot, comparisons, …
///   y = w[…, 0] * f(x; W.0) + … + w[…, E-1] * f(x; W.E-1)
/// ->
///   y = reduce_sum(v[…, k, 1] * f(x[…, 1, K]; W[ids]))    over the k chosen ones, v = w[…, ids]
///
/// Instead, all experts may be computed by one product with W[E, K, N], whose results are added up
/// along the first dim (expert_lanes.h).
///
/// f: products with matrices, which become ExpertLinear, elementwise operators, and slices and
/// splits of rows. A term may be where(chosen, w * f, 0) instead. Other terms of the sum are kept.
/// An expert that is not chosen has no effect, even if its result is not finite. The order of
/// additions changes. The width of each product's result must be a multiple of 8, as ExpertLinear
/// requires.
Result<ir::Graph> choose_experts(ir::Graph graph, const PassContext& context);

// ---- Positions and caches

/// Replaces positions that a graph computes by the input of kind kPositions, which the runtime
/// provides.
///
///   p = past + range(0, seq) | cumsum(mask of ones) - 1, cut to the new tokens | …
///   rope(x, p, f), embedding of p, gather(table, p)
/// ->
///   rope(x, position_ids, f), …
///
///   values p + c that the graph computes by range or cumsum  ->  position_ids + c
///
///   gather(table, p + c)   ->   gather(table[c:], position_ids)      c: a number
///
///   (past + c + cumsum(m)) * m   ->   (position_ids + c + 1) * m     m: 1, or 0 for one token id
///
/// p: integers past, past + 1, … along one axis of seq elements (index_analysis.h), where `past`
/// and `seq` are symbols in the types of the first cache and the token ids. c: a number >= 0,
/// except in the last pattern. Adds the input of kind kPositions if the graph lacks it, and removes
/// it if no node reads it afterwards. Graphs without caches or token ids are unchanged.
Result<ir::Graph> canonical_positions(ir::Graph graph, const PassContext& context);

/// Caches the latent row from which keys and values are computed, if it is narrower than they are
/// (multi-head latent attention, DeepSeek-V2, arXiv 2405.04434, section 2.1.2):
///
///   k[h] = concat(c . Wk[h], s), v[h] = c . Wv[h]     c[S, rank], s[S, rotary] for all heads h
///   y[h] = attention(q[h], k[h], v[h], past[2, 1, heads, past, head_dim])
/// ->
///   q'[h] = concat(q[h] . Wk[h]^T, rest of q[h]), k' = v' = concat(c, s)
///   y'[h] = attention(q'[h], k', v', past[2, 1, 1, past, rank + rotary])
///   y[h] = y'[h][: rank] . Wv[h]
///
/// because q . (c . Wk) = (q . Wk^T) . c, and a weighted sum of values over tokens is the same sum
/// of rows c, times Wv. k and v may be parts of one product, in any order, and consist of several
/// parts. Applies to all attentions of a decoder or to none, and only if it at least halves the
/// cache and the widths rank and rank + rotary are multiples of 8.
Result<ir::Graph> latent_cache(ir::Graph graph, const PassContext& context);

// ---- Layers

/// Converts convolutions to operators with the channels last: linear layers over their windows, so
/// that weights can be quantized, and depthwise convolutions.
///
///   conv(x, w)       ->  t(linear(unfold(t'(x)), w'))       t' moves the channels last, t back
///   … + bias         ->  the layer's bias
///   conv(x, w)       ->  t(depthwise_conv(t'(x), w'))       for a kernel of each channel
///   conv(pad(x), w)  ->  … pad(t'(x)) …
///
/// unfold is omitted if the kernel has one element and all strides are 1. Layers with fewer than 32
/// elements per window (a block of a quantized matrix) or fewer than 8 output channels (a panel)
/// get the format f32. Unchanged with several groups that are not channels, with fewer than 8
/// channels of their own, with a weight that is not constant, with more than 2^24 elements
/// per window, and in graphs with float weights in which a sixth of the convolutions have such
/// groups.
Result<ir::Graph> channels_last_conv(ir::Graph graph, const PassContext& context);

/// Moves transposes that put channels first after elementwise operators and concatenations, so that
/// those of successive convolutions cancel. t moves the last axis to position 1:
///
///   f(t(x), t(y), c)     ->  t(f(x, y, c'))       f elementwise
///   concat(t(x), t(y))   ->  t(concat(x, y))      along the corresponding axis
///   g(t(x))              ->  t(g(x))              likewise; g is a gather with a list of indices,
///                                                 a slice, a pad, or a reduction that keeps dims
///   reshape(t(x))        ->  t(reshape(x))        if it keeps batch and channels
///
/// c has the same elements for all channels or for all positions, so that c' is a reshape of it, or
/// something else reads it with the channels last. At least one operand must be transposed.
Result<ir::Graph> sink_transposes(ir::Graph graph, const PassContext& context);

/// Replaces products with a constant matrix by linear layers, and a gather of table rows by an
/// embedding.
///
///   matmul(x, W[K, N])                  -> linear(x, W^T)          W^T a lazy view
///   gemm(x, W, c?) {alpha = beta = 1}   -> linear(x, W or W^T, c?) for either trans_b; c constant
///   add(linear(x, W), b)                -> linear(x, W, b)         b f32[N] constant, either side
///   [cast] gather(table[V, n], ids)     -> embedding(ids, table)   axis 0, result f32
///   linear(view of x as [rows, K], W)   -> reshape(linear(x, W))
///
/// In a decoder, ids must be an i64 input (token ids or positions) or a reshape of it, with at most
/// one dim that is not 1; casts to i32 are accepted. In a plain graph, they may be any computed
/// value, but lookups are replaced only if PassOptions::weights is set. W and table may be f16 or
/// bf16 with a Cast to f32: the layer reads the constant as it is stored. Unchanged if the matrix
/// is computed or its rank is not 2, if alpha is not 1, if beta is not 1 and there is a c, or if x
/// is transposed.
Result<ir::Graph> to_linear(ir::Graph graph, const PassContext& context);

/// Splits a product whose parts are read separately, such as one with fused query-key-value or
/// gate-up weights.
///
///   y = linear(x, W, b?)                                   N = rows of W
///   split(y) | slice(y) on the last axis                   one part each
///   split | slice | gather on one of the last axes of reshape(y, […, n1, …, nk]), n1 … nk = N
/// ->
///   reshape(linear(x, rows of W, rows of b))
///
/// Rows are selected lazily. Indices and bounds must be constants. Unchanged if y or its view has
/// other users, if some users read y itself and others a view, or if the layer has a norm, an
/// activation or a residual.
Result<ir::Graph> split_linear(ir::Graph graph, const PassContext& context);

/// Moves the selection of one token's row before operators that process each row independently, so
/// that the head computes only one row for a prompt of any length.
///
///   gather(rms_norm(x, w), row)      ->  rms_norm(gather(x, row), w)      any axis but the last
///   gather(layer_norm(x, …), row)    ->  layer_norm(gather(x, row), …)
///   gather(linear(x, …), row)        ->  linear(gather(x, row), …)
///   gather(f(x), row)                ->  f(gather(x, row))           f: unary, or binary with a
///                                                                    scalar (logits softcap)
///   reshape(rms_norm(x, w))          ->  rms_norm(reshape(x), w)          where rows stay rows;
///                                                                    layer_norm likewise
///
/// The row is a constant index. Unchanged if the rows have other users, and for layers with a
/// residual.
Result<ir::Graph> select_row_early(ir::Graph graph, const PassContext& context);

/// Rolls layers that differ only in constants and caches into a loop with one body.
///
///   x1, present.0 = layer(x0, past.0; W.0)   …   xL, present.L-1 = layer(xL-1, past.L-1; W.L-1)
/// ->
///   xL, present.0 … = loop(x0, past.0 …) { layer with parameters }
///
/// Rolls the longest sequence of nodes, in depth-first order from the outputs, that repeats with
/// the same operators, attributes, types and dataflow. Each operand of an iteration is a result of
/// the same iteration, a result of the previous iteration (carried; the first iteration reads an
/// outer value), an outer value that is the same for all iterations (such as positions), or one
/// outer value per iteration (such as caches). Constants that differ between iterations become
/// parameters; equal constants are part of the body. Nodes before and after the loop are unchanged.
///
/// A body has at least one linear layer, expert layer or attention, and at least one carried value
/// that it computes from a carried value. If it has attention, each iteration must have its own
/// caches, and only the updated caches and the last carried values may be read after the loop. The
/// search is repeated for the remaining nodes, such as layers with experts after layers without, up
/// to 8 loops. Graphs with recurrent states are unchanged.
Result<ir::Graph> roll_layers(ir::Graph graph, const PassContext& context);

// ---- Weights

/// With PassOptions::requantize, replaces weights of products that have integer codes in the model
/// by the floats that they represent, if their format is quantized:
///
///   linear(x, W) {format = q4}  ->  linear(x, floats(W)) {format = q4}       W: quantized
///
/// Packing then rounds them to the format instead of keeping the codes, and hadamard_inputs and
/// calibration treat them like other weights. Embedding tables keep their codes.
Result<ir::Graph> requantize(ir::Graph graph, const PassContext& context);

/// Makes quantized products transform their inputs to the Hadamard basis, which spreads outliers
/// over all elements (ir/hadamard.h). Their weights are transformed accordingly.
///
///   linear(x, W) {format = q8}  ->  linear(x, hadamard(W, 256)) {format = q8, hadamard = 256}
///
/// Applies to expert_linear and qkv_projection, too, and to the bodies of loops. Unchanged if the
/// format is not quantized, if W is not a constant or parameter, if rows of W are quantized in the
/// model (their codes may be preserved), or if no columns of W can be transformed.
Result<ir::Graph> hadamard_inputs(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

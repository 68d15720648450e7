#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Rotary position embedding becomes one node, however it is spelled.
///
///   x f32[1, S, heads, D] or [1, heads, S, D], and a value y of the same type each of whose
///   elements along D is, for pairs (i, j) of the first rotary_dim elements,
///     y_i = x_i cos(p f) - x_j sin(p f)      y_j = x_j cos(p f) + x_i sin(p f)
///   and x_k for k >= rotary_dim
/// ->
///   y = rope(x, positions, frequencies f32[rotary_dim / 2])     j = i + rotary_dim/2, or with
///                                                               `interleaved` i even, j = i + 1
///
/// Not a list of spellings: the elements of each value along D are followed as sums of
/// +-x_i * {1, cos, sin} through Slice, Split, Gather, Concat, Neg, Mul, Add, Sub, Reshape,
/// Squeeze, Unsqueeze and Expand, so any arrangement of those that computes a rotation matches.
///
/// Angles p f: mul(cast(positions), frequencies), or matmul of either with the other, reshaped,
/// transposed, concatenated; cos and sin may carry no factor. Tables: gather(table, positions) on
/// axis 0 of constants [max_positions, n] for cos and sin; they become one f32[max_positions,
/// rotary_dim] constant (cos | sin) and the node says `table`.
///
/// rope(transpose(x)) of heads-first x becomes transpose(rope(x)), so that projections see rows.
/// Unchanged when rotations differ from the above in sign or pairing, positions are no integers
/// with one element for each token, or the batch is not 1.
Result<ir::Graph> fuse_rope(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

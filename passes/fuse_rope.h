#pragma once

#include "passes/pass.h"

namespace llmc::passes {

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
/// If the positions are the input `position_axes` i64[n, S] (multimodal RoPE), the rope has the
/// attribute `position_axes`: the row of each frequency. If anything but such rotations reads the
/// elements of this input, it is first replaced by n copies of `position_ids`, which are the
/// positions of text.
///
/// rope(transpose(x)) of heads-first x becomes transpose(rope(x)), so that the rotation reads the
/// rows of the projection's result. Unchanged if a rotation differs from the above in sign or
/// pairing, positions are not integers with one element for each token, or the batch is not 1.
/// Plain graphs are unchanged.
Result<ir::Graph> fuse_rope(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

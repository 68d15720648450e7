#pragma once

#include "passes/pass.h"

namespace llmc::passes {

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

}  // namespace llmc::passes

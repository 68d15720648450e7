#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Merges the two projections of a gated feed-forward into one.
///
///   gated_activation(linear(x, Wg, bg?), linear(x, Wu, bu?)) {fn}
///     ->  linear(x, [Wg; Wu], [bg; bu]?) {fn, gated}
///
/// Rows are stacked lazily. A missing bias becomes zeros if the other projection has one. Unchanged
/// if the x or the element types of the weights differ, or a projection has other users, a norm, an
/// activation or a residual.
Result<ir::Graph> merge_gate_up(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Merges the two projections of a gated feed-forward into one.
///
///   gated_activation(linear(x, Wg, bg?), linear(x, Wu, bu?)) {fn}
///     ->  linear(x, [Wg; Wu], [bg; bu]?) {fn, gated}
///
/// Rows are stacked lazily. Unchanged if the x differ or a projection has other users.
Result<ir::Graph> merge_gate_up(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

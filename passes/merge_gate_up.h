#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// The two projections of a gated feed-forward become one stage.
///
///   gated_activation(linear(x, Wg, bg?), linear(x, Wu, bu?)) {fn}
///     ->  linear(x, [Wg; Wu], [bg; bu]?) {fn, gated}
///
/// Rows are stacked lazily. Unchanged when the x differ or a projection is read elsewhere.
Result<ir::Graph> merge_gate_up(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

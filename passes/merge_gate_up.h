#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// The two projections of a gated feed-forward become one stage.
///
///   swiglu(linear(x, Wg, bg?), linear(x, Wu, bu?))  ->  linear(x, [Wg; Wu], [bg; bu]?) {swiglu}
///
/// Rows are stacked lazily. Unchanged when the x differ or a projection is read elsewhere.
Result<ir::Graph> merge_gate_up(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

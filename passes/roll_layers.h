#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Layers that differ in nothing but constants and caches become one body, run once for each.
///
///   x1, present.0 = layer(x0, past.0; W.0)   …   xL, present.L-1 = layer(xL-1, past.L-1; W.L-1)
/// ->
///   xL, present.0 … = loop(x0, past.0 …) { layer with parameters }
///
/// Found as the longest run of nodes, in the order a depth-first walk from the outputs gives, that
/// repeats with the same operators, attributes, types and dataflow: what an iteration reads is made
/// in the same iteration, in the one before (carried; the first reads a value from outside), is the
/// same for all (positions), or is one outer value for each (caches). Constants that differ become
/// parameters, equal ones stand in the body. Nodes before and behind the run stay as they are.
///
/// A body holds at least one linear layer or attention and carries something from one iteration to
/// the next; otherwise there is nothing to roll and the graph is unchanged.
Result<ir::Graph> roll_layers(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

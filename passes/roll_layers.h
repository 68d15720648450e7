#pragma once

#include "passes/pass.h"

namespace llmc::passes {

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
/// to 8 loops. Plain graphs and graphs with recurrent states are unchanged.
Result<ir::Graph> roll_layers(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Nodes that compute the same from the same operands become one.
///
///   a = op(x, y) {…} ; b = op(x, y) {…}  ->  a for both
///
/// Constants are the same when element type, dims and bytes are (large ones: when they are the same
/// object). Each block of a split export computes its own RoPE angles; this leaves one.
Result<ir::Graph> eliminate_common(ir::Graph graph, const PassContext& context);

/// Removes nodes that no output needs. Inputs of the graph stay.
Result<ir::Graph> eliminate_dead(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

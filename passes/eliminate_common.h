#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Common subexpression elimination: replaces equal operators on equal operands by one node.
///
///   a = op(x, y) {…} ; b = op(x, y) {…}  ->  a for both
///
/// Constants are equal if element type, dims and bytes are; large ones only if they are the same
/// object. Each block of a split export computes its own RoPE angles; one of them remains.
Result<ir::Graph> eliminate_common(ir::Graph graph, const PassContext& context);

/// Dead code elimination: removes nodes that no output depends on. Graph inputs stay.
Result<ir::Graph> eliminate_dead(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

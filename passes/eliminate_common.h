#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Common subexpression elimination: replaces nodes with equal operators and equal operands by one
/// node.
///
///   a = op(x, y) {…} ; b = op(x, y) {…}  ->  a for both
///
/// Constants are equal if element type, dims and bytes are equal. Constants of more than 64 KiB are
/// equal only if they are the same object. Loops are never equal, and two graph outputs keep
/// separate nodes. Example: each layer of an export computes the same RoPE angles, and the pass
/// keeps one copy.
Result<ir::Graph> eliminate_common(ir::Graph graph, const PassContext& context);

/// Dead code elimination: removes nodes on which no output depends. Keeps all graph inputs.
Result<ir::Graph> eliminate_dead(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

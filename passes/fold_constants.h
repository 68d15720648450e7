#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Replaces values that do not depend on graph inputs by constants.
///
///   integers of rank <= 1 whose elements are known numbers (shapes)      -> constant
///   node whose operands are all constants, result within the limit       -> constant
///   transpose(W) {perm = [1, 0]} of a larger constant                    -> constant, lazy view
///   reshape(x, computed)  -> reshape(x, constant)  where the result's dims need at most one -1
///   expand(x, computed)   -> expand(x, constant)   where each dim is a number or that of x
///
/// Nodes with an operand or a result of more than PassOptions::fold_limit_elements elements are not
/// evaluated, so this pass reads no weight matrices above this size. The nodes that one run
/// evaluates have at most 2^24 result elements together. Nodes with a quantized matrix are not
/// evaluated, and graph outputs do not become constants.
Result<ir::Graph> fold_constants(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

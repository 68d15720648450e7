#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Moves the selection of one token's row before operators that process each row independently, so
/// that the head computes only one row for a prompt of any length.
///
///   gather(rms_norm(x, w), row)      ->  rms_norm(gather(x, row), w)      any axis but the last
///   gather(layer_norm(x, …), row)    ->  layer_norm(gather(x, row), …)
///   gather(linear(x, …), row)        ->  linear(gather(x, row), …)
///   gather(f(x), row)                ->  f(gather(x, row))           f: unary, or binary with a
///                                                                    scalar (logits softcap)
///   reshape(rms_norm(x, w))          ->  rms_norm(reshape(x), w)          where rows stay rows;
///                                                                    layer_norm likewise
///
/// The row is a constant index. Unchanged if the rows have other users, and for layers with a
/// residual.
Result<ir::Graph> select_row_early(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Splits a product whose parts are read separately, such as one with fused query-key-value or
/// gate-up weights.
///
///   y = linear(x, W, b?)                                   N = rows of W
///   split(y) | slice(y) on the last axis                   one part each
///   split | slice | gather on one of the last axes of reshape(y, […, n1, …, nk]), n1 … nk = N
/// ->
///   reshape(linear(x, rows of W, rows of b))
///
/// Rows are selected lazily. Indices and bounds must be constants. Unchanged if y or its view has
/// other users, if some users read y itself and others a view, or if the layer has a norm, an
/// activation or a residual.
Result<ir::Graph> split_linear(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

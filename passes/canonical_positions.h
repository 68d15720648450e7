#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Positions that a graph works out itself become the input `position_ids` i64[1, seq], which the
/// runtime feeds.
///
///   p = past + range(0, seq) | cumsum(mask of ones) - 1, cut to the new tokens | …
///   rope(x, p, f), embedding of p, gather(table, p)
/// ->
///   rope(x, position_ids, f), …
///
/// p: integers past, past + 1, … along one axis of seq elements (index_analysis.h), where `past`
/// and `seq` are the symbols of the inputs past.0 and input_ids. The input is added where the
/// graph has none, and goes where nothing reads it any more. Unchanged in graphs without these
/// inputs.
Result<ir::Graph> canonical_positions(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

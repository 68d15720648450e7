#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Replaces positions that a graph computes by the input `position_ids` i64[1, seq], which the
/// runtime provides.
///
///   p = past + range(0, seq) | cumsum(mask of ones) - 1, cut to the new tokens | …
///   rope(x, p, f), embedding of p, gather(table, p)
/// ->
///   rope(x, position_ids, f), …
///
///   values p + c that the graph computes by range or cumsum  ->  position_ids + c
///
///   gather(table, p + c)   ->   gather(table[c:], position_ids)      c: a number
///
///   (past + c + cumsum(m)) * m   ->   (position_ids + c + 1) * m     m: 1, or 0 for one token id
///
/// p: integers past, past + 1, … along one axis of seq elements (index_analysis.h), where `past`
/// and `seq` are symbols in the types of the inputs past.0 and input_ids. c: a number >= 0, except
/// in the last pattern. Adds the input position_ids if the graph lacks it, and removes it if no
/// node reads it afterwards. Graphs without past.0 or input_ids and plain graphs are unchanged.
Result<ir::Graph> canonical_positions(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Decides comparisons with the length of the text, which exporters write for models that choose
/// between tables of frequencies (LongRoPE).
///
///   n = past + seq + c: reduce_max(position_ids) + 1, the last position, the size of a mask, …
///   n > k, and other comparisons of n with a number or another such length
/// ->
///   constant                      where all lengths from 1 to PassOptions::context agree
///   last_position + c + 1 > k     otherwise
///
/// `last_position` i64[] is a new graph input: the position of the last token that the caller
/// appends. The runtime provides it, because a call of the compiled code may process only some of
/// these tokens. Only comparisons with one element are replaced; masks compare more. Plain graphs
/// are unchanged.
Result<ir::Graph> choose_by_length(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

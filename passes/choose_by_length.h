#pragma once

#include "passes/pass.h"

namespace llmc::passes {

/// Replaces comparisons between the length of the text and a number. Exporters write them for
/// models that choose between tables of frequencies (LongRoPE).
///
///   n = past + seq + c: reduce_max(position_ids) + 1, the last position, the size of a mask, …
///   n < k, n <= k, n > k, n >= k, with the number k on either side
/// ->
///   constant                      where all lengths from 1 to PassOptions::context agree
///   last_position + c + 1 > k     otherwise
///
/// `last_position` i64[] is a new graph input: the position of the last token that the caller
/// appends. The runtime provides it, because a call of the compiled code may process only some of
/// these tokens. Only comparisons with a single result element are replaced; those of masks have
/// more. Plain graphs are unchanged.
Result<ir::Graph> choose_by_length(ir::Graph graph, const PassContext& context);

}  // namespace llmc::passes

#pragma once

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

namespace llmc::ir {

/// Loops inside loops inside loops: nobody makes them, and what reads graphs recurses.
inline constexpr int kMaxLoopDepth = 8;

/// Holds a graph to the rules every pass may rely on, and reports the first broken one of each
/// node:
///  - single assignment: every value is an input or the output of one node, which stands before its
///    users; graph outputs exist
///  - names of values are unique (empty ones aside)
///  - operand and result counts are the operator's; only trailing or optional operands are absent
///  - attributes are in range (axes inside the rank, permutations permute, counts are positive)
///  - types of results agree with inference (dims compatible), constants with their data
///  - loops: counts, parameters and the body's inputs and outputs fit; Parameter only in a body
/// The errors are kInternal: a pass broke the graph (parsers turn them into kBadInput).
Status verify(const Graph& graph);

}  // namespace llmc::ir

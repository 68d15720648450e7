#pragma once

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

namespace llmc::ir {

/// Maximum nesting depth of loops, because functions that traverse graphs are recursive.
inline constexpr int kMaxLoopDepth = 8;

/// Checks the invariants on which every pass may rely:
///  - single assignment: every value that is used is an input or the output of one node, which
///  comes
///    before its users; graph outputs exist
///  - names of values are unique (except empty ones); dims are not negative
///  - operand and result counts match the operator; only optional operands are absent
///  - attributes are in range (axes within the rank, permutations are permutations, counts are
///    positive)
///  - types of results are compatible with the inferred types
///  - types of constants equal those of their data
///  - loops: counts, parameters and the body's inputs and outputs match
///  - Parameter nodes are only in loop bodies
/// Fails with kInternal, because a pass produced an invalid graph; callers that check a graph from
/// a file convert the error. Reports the first violation in each node. If names, dims or inputs
/// are wrong, reports only the first violation in them and does not check the nodes.
Status verify(const Graph& graph);

}  // namespace llmc::ir

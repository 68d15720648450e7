#pragma once

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

namespace llmc::ir {

/// Maximum nesting of loops; functions that traverse graphs are recursive.
inline constexpr int kMaxLoopDepth = 8;

/// Checks the invariants that every pass may rely on, and reports the first violation in each node:
///  - single assignment: every value is an input or the output of one node, which comes before its
///    users; graph outputs exist
///  - names of values are unique (except empty ones)
///  - operand and result counts match the operator; only trailing or optional operands are absent
///  - attributes are in range (axes within the rank, permutations are permutations, counts are
///    positive)
///  - types of results agree with inference (dims compatible), constants with their data
///  - loops: counts, parameters and the body's inputs and outputs match; Parameter only in a body
/// The errors are kInternal: a pass produced an invalid graph (parsers convert them to kBadInput).
Status verify(const Graph& graph);

}  // namespace llmc::ir

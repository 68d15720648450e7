#pragma once

#include "compiler/ir/graph.h"

namespace llmc::calibrate {

/// Returns the graph without the selection of the last row: it computes logits for every token.
/// Types of values may be those of one row.
ir::Graph with_all_logits(ir::Graph stages);

}  // namespace llmc::calibrate

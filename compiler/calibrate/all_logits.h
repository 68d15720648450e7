#pragma once

#include "compiler/ir/graph.h"

namespace llmc::calibrate {

/// Returns the graph without the selection of the last row, so that it computes logits for every
/// token. Value types are not updated; they may still describe one row.
ir::Graph with_all_logits(ir::Graph stages);

}  // namespace llmc::calibrate

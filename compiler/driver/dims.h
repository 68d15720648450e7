#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

/// Sizes of the symbolic dims of plain graphs (--dim).
namespace llmc::driver {

/// Gives symbols of the inputs' shapes their sizes and infers all types again. `dims` names symbols
/// or sums that inputs have ("past_sequence_length + 1"). kUsage for a name that no input has, for
/// sizes that contradict each other, for a size below 0, and for one of 0 that leaves no output
/// with an element.
Result<ir::Graph> bind_dims(ir::Graph graph, const std::map<std::string, std::int64_t>& dims);

/// The flags that give all open sizes of the graph's inputs: "--dim batch_size=1 --dim length=N".
/// Empty when all sizes are fixed.
std::string missing_dims(const ir::Graph& graph);

}  // namespace llmc::driver

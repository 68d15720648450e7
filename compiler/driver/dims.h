#pragma once

#include <string>

#include "compiler/ir/graph.h"
#include "compiler/plan/size.h"
#include "compiler/support/result.h"

/// Sizes of the symbolic dims of plain graphs (--dim).
namespace llmc::driver {

/// Gives symbols of the inputs' shapes their sizes and infers all types again; those with a range
/// stay symbols. `dims` names symbols or sums that inputs have ("past_sequence_length + 1"). kUsage
/// for a name that no input has, for sizes that contradict each other, for a size below 0, for one
/// of 0 that leaves no output with an element, for a range that is empty or has 0, and for a range
/// of a sum.
Result<ir::Graph> bind_dims(ir::Graph graph, const plan::DimRanges& dims);

/// The flags that give all open sizes of the graph's inputs, except those of `given`: "--dim
/// batch_size=1 --dim length=N". Empty when there are none.
std::string missing_dims(const ir::Graph& graph, const plan::DimRanges& given = {});

}  // namespace llmc::driver

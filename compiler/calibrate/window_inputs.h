#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/calibrate/stream.h"
#include "compiler/ir/graph.h"

namespace llmc::calibrate {

/// Returns the inputs of a decoder's graph of stages for windows of token ids with empty caches, in
/// the order of the graph's inputs. Each input lists all windows `copies` times. Fails with
/// kUnsupported if the graph has inputs other than those of a decoder without recurrent states.
Result<std::vector<Values>> window_inputs(const ir::Graph& stages,
                                          std::span<const std::vector<std::int32_t>> windows,
                                          std::size_t copies);

}  // namespace llmc::calibrate

#pragma once

#include <cstdint>
#include <span>

#include "compiler/ir/graph.h"

namespace llmc::passes {

/// Replaces a Loop by consecutive loops over ranges of its iterations, so that each range can have
/// separate weight formats:
///
///   y = loop x {count = 5}  ->  x2 = loop x {count = 2}, y = loop x2 {count = 3}
///
/// `node` is the index of the Loop. `counts` are the numbers of iterations of the ranges: positive,
/// with the loop's count as their sum (LLMC_CHECK). Parameters, per-iteration inputs and outputs
/// are distributed. All loops share one body object.
ir::Graph split_loop(ir::Graph graph, std::size_t node, std::span<const std::int64_t> counts);

}  // namespace llmc::passes

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

namespace llmc::opt {

/// Evaluates `graph` with the reference interpreter on made-up inputs and lists every output: name,
/// type and first elements. `sizes` are "symbol=number"; other symbols are 1. Floats are random in
/// [-1, 1), integers count from 0: the same graph, sizes and seed give the same text.
Result<std::string> evaluation_text(const ir::Graph& graph, const std::vector<std::string>& sizes,
                                    std::uint64_t seed);

}  // namespace llmc::opt

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

namespace llmc::opt {

/// Evaluates `graph` with the reference interpreter on generated inputs. Returns a list of all
/// outputs with name, type and first elements. `sizes` are "symbol=number"; other symbols are 1.
/// Float inputs are random in [-1, 1); integer inputs are 0, 1, 2, …. The text depends only on
/// `graph`, `sizes` and `seed`. Fails with kUsage for an invalid size or if an input is too large.
/// Also fails like reference::evaluate().
Result<std::string> evaluation_text(const ir::Graph& graph, const std::vector<std::string>& sizes,
                                    std::uint64_t seed);

}  // namespace llmc::opt

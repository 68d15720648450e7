#pragma once

#include <cstdint>
#include <optional>

#include "compiler/ir/graph.h"

namespace llmc::passes {

/// Returns the maximum size of the symbolic `dim` for which all positions that the graph looks up
/// in constant tables [rows, width] are within them; nullopt if no table limits it. Considers only
/// indices c, c + 1, … along that dim, with a number c >= 0.
std::optional<std::int64_t> size_limit(const ir::Graph& graph, const ir::Dim& dim);

}  // namespace llmc::passes

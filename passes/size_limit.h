#pragma once

#include <cstdint>
#include <optional>

#include "compiler/ir/graph.h"

namespace llmc::passes {

/// Returns the maximum size of the symbolic `dim` for which all positions that the graph looks up
/// in constant tables [rows, width], or takes from constants with a Slice, are within them; nullopt
/// if no constant limits it. Considers only indices c, c + 1, … along that dim, with a number c >=
/// 0.
std::optional<std::int64_t> size_limit(const ir::Graph& graph, const ir::Dim& dim);

/// Returns the number of ids for which all lookups of elements of `ids` in constant tables are
/// within them; nullopt if there is no lookup.
std::optional<std::int64_t> vocabulary_limit(const ir::Graph& graph, ir::ValueId ids);

}  // namespace llmc::passes

#pragma once

#include <cstdint>
#include <optional>

#include "compiler/ir/graph.h"

namespace llmc::passes {

/// Returns the maximum size of the symbolic `dim` such that no lookup in a constant table [rows,
/// width] and no Slice of a constant reads past its end; nullopt if there is no maximum. Considers
/// only indices c, c + 1, … along that dim, with a number c >= 0.
std::optional<std::int64_t> size_limit(const ir::Graph& graph, const ir::Dim& dim);

/// Returns the number of valid ids: the rows of the smallest constant table in which the graph
/// looks up elements of `ids`; nullopt if there is no lookup.
std::optional<std::int64_t> vocabulary_limit(const ir::Graph& graph, ir::ValueId ids);

}  // namespace llmc::passes

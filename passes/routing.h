#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "passes/match.h"

namespace llmc::passes {

/// The factor of an expert's result in a sum over all experts: `factor`, one element for each row,
/// or 0 where `condition` is false. `condition` may be kNoValue (always true).
///
/// The two values may hold the factors of `parts` experts, stacked along the first dim; `part` is
/// the index of this expert's.
struct ExpertFactor {
  ir::ValueId factor, condition;
  std::size_t part = 0, parts = 1;
};

/// The experts that a TopK chooses, and their factors. The factors of all other experts are 0.
struct Routing {
  ir::ValueId ids;                    // i64[…, chosen]: indices of the TopK
  ir::ValueId factors;                // f32[…, chosen]: of the experts with these ids
  std::vector<std::int64_t> experts;  // by term of the sum: index of its expert
};

/// Returns the routing of a sum with one term for each expert, or nullopt.
///
/// Evaluates the factors for sample ids of `top`, a TopK over as many elements as there are terms.
/// Values that are not computed from the ids, constants and dims get random elements. In all
/// samples, each term must belong to a different expert: its factor is 0 in all rows that do not
/// choose this expert, and equal to the element of Routing::factors in the rows that do.
std::optional<Routing> find_routing(const Rewriter& rw, NodeIndex top,
                                    const std::vector<ExpertFactor>& terms);

/// Returns whether a factor or its condition depends on the ids of `top`.
bool follows_from_choice(const Rewriter& rw, NodeIndex top, const ExpertFactor& term);

}  // namespace llmc::passes

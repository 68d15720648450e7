#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "passes/match.h"

namespace llmc::passes {

/// What an expert's result is multiplied with in a sum over all experts: `factor`, one for each
/// row, or 0 where `condition`, which may be kNoValue, is false.
///
/// Each of `parts` terms may be a part of both, along a first dim of as many elements.
struct ExpertFactor {
  ir::ValueId factor, condition;
  std::size_t part = 0, parts = 1;
};

/// Experts chosen by a TopK, whose factors are 0 for all others.
struct Routing {
  ir::ValueId ids;                    // i64[…, chosen]: indices of the TopK
  ir::ValueId factors;                // f32[…, chosen]: of the experts with these ids
  std::vector<std::int64_t> experts;  // of each term of the sum
};

/// Returns the routing of a sum with one term for each expert, or nullopt.
///
/// The factors are evaluated for made-up ids of `top`, a TopK over as many elements as there are
/// terms; what does not follow from the ids, constants and dims has random elements. Each factor
/// has to be 0 in all rows that do not choose one certain expert, and has to be the value in
/// `factors` in those that do.
std::optional<Routing> find_routing(const Rewriter& rw, NodeIndex top,
                                    const std::vector<ExpertFactor>& terms);

/// Returns whether a factor or its condition is computed from the ids of `top`.
bool follows_from_choice(const Rewriter& rw, NodeIndex top, const ExpertFactor& term);

}  // namespace llmc::passes

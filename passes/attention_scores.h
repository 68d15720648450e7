#pragma once

#include <optional>
#include <vector>

#include "passes/match.h"

/// What stands between softmax and the product of queries and keys.
namespace llmc::passes {

/// softmax's operand: c tanh(scale q k / c), or scale q k without a softcap; then masks, in any
/// order.
struct Scores {
  ir::ValueId q, k;  // operands of the product
  double scale = 1;
  double softcap = 0;               // 0: none
  std::vector<ir::ValueId> biases;  // added
  struct Condition {
    ir::ValueId value;
    bool seen = true;  // the score stays where value is this; a number <= -1e4 stands elsewhere
  };
  std::vector<Condition> conditions;
};

/// nullopt when something else stands there, such as a bias before the softcap, or when the scores
/// are broadcast.
std::optional<Scores> match_scores(const Rewriter& rw, ir::ValueId value);

/// The softmax over the last axis that makes `probabilities`, through views and guards
/// where(is_nan(p), 0, p); kNoValue when none does. The result is what softmax reads.
ir::ValueId softmax_operand(const Rewriter& rw, ir::ValueId probabilities);

}  // namespace llmc::passes

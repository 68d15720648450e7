#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "passes/match.h"

/// The operators between the product of queries and keys and the softmax.
namespace llmc::passes {

/// The operand of softmax: scale * (q . k), or with a softcap c * tanh(scale * (q . k) / c), to
/// which masks are applied in any order. Biases and conditions are listed in the order from the
/// softmax to the product.
struct Scores {
  ir::ValueId q, k;     // operands of the product
  ir::ValueId product;  // its result
  double scale = 1;
  double softcap = 0;    // 0: none
  bool bounded = false;  // max(score, c) with c <= -6e4 was applied, maybe after a mask
  struct Bias {
    ir::ValueId value;
    double scale = 1;
    ir::ValueId result;  // the sum; its dims are those of the scores, except for views
  };
  std::vector<Bias> biases;  // masks and other terms: scale * value is added to the score
  struct Condition {
    ir::ValueId value;
    /// The score is kept where value == seen, and otherwise replaced by scale * fill.
    bool seen = true;
    double fill = 0;
    double scale = 1;
    ir::ValueId result;      // like Bias::result
    std::size_t biases = 0;  // number of biases that are added after the replacement

    /// Returns whether the fill hides a score.
    bool hides() const;
  };
  std::vector<Condition> conditions;
};

/// Views between the product and the softmax, and after the softmax, that are matched.
enum class ScoreViews : std::uint8_t {
  kOnes,      // those that add or remove dims of 1
  kAnyBatch,  // all that keep the last two dims
};

/// Matches the scores `value`. Returns nullopt for other operators and if the scores are broadcast.
/// Masks and biases must follow the softcap.
std::optional<Scores> match_scores(const Rewriter& rw, ir::ValueId value,
                                   ScoreViews views = ScoreViews::kOnes);

/// A match of where(condition, x, number) or where(condition, number, x).
struct Replaced {
  Scores::Condition condition;
  ir::ValueId kept;  // x
};
std::optional<Replaced> match_replaced(const Rewriter& rw, ir::ValueId value);

/// A softmax over the last axis.
struct SoftmaxMatch {
  ir::ValueId scores;  // without the score of the sink
  /// f32[heads] constant: the score of one more key, whose probability is dropped; nullptr: none.
  ir::ConstantPtr sinks;
  bool nan_is_zero = false;  // whether NaN probabilities are replaced by 0
};
/// Matches the softmax that computes `probabilities`. Views, guards where(is_nan(p), 0, p) and a
/// slice that drops the sink may follow it, and x - max(x) may precede it.
std::optional<SoftmaxMatch> match_softmax(const Rewriter& rw, ir::ValueId probabilities,
                                          ScoreViews views = ScoreViews::kOnes);

}  // namespace llmc::passes

#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "passes/band.h"
#include "passes/index_analysis.h"

/// Analysis of masks: finds the band of visible keys.
namespace llmc::passes {

/// Sizes of the scores: S queries, P cached tokens, P + S keys.
struct MaskShape {
  ir::Dim queries, past, keys;
};

/// Finds the band of a mask. Supports comparisons of key and query index (index_analysis.h),
/// equality of their chunk numbers (quotients by the chunk size), And, Or, Not, Where, products
/// with 0 and 1, 1 - x, triangles, views and concatenations of masks, slices of stored triangles,
/// padding masks of ones, and the graph input of kind kMask. By the exporters' convention, that is
/// causal: 0 for visible keys and the type's lowest number elsewhere. The last axis of a mask is
/// the keys, the one before it the queries. Along other axes, the mask must have one element or be
/// repeated.
class MaskAnalysis {
 public:
  /// A number of at most this, added to a score, hides the key, like minus infinity.
  static constexpr double kHidden = -1e4;
  static constexpr int kMaxMaskDepth = 64;
  /// Maximum number of elements of a stored mask.
  static constexpr std::int64_t kMaxStored = std::int64_t{1} << 24;

  MaskAnalysis(const Rewriter& rw, IndexAnalysis& indices, MaskShape shape)
      : rw_(rw), indices_(indices), shape_(std::move(shape)) {}

  /// Returns the band in which the bool `value` equals `wanted`; nullopt if it does so nowhere or
  /// the band is not known.
  std::optional<Band> condition(ir::ValueId value, bool wanted);
  /// Returns the band in which the float `value` is 0, if it is at most kHidden everywhere else;
  /// nullopt if this is not known.
  std::optional<Band> bias(ir::ValueId value);

 private:
  enum class Question : std::uint8_t { kCondition, kNonZero, kBias };
  /// Returns the answer to a question about `value`; nullopt for a value without a producer.
  /// Answers are cached, so that the time is linear in the number of nodes.
  std::optional<Band> answer(Question question, ir::ValueId value, bool wanted);
  /// Applies the rules that hold for bools and for numbers: constants, casts and triangles. Returns
  /// nullopt if none applies.
  std::optional<std::optional<Band>> of_any_type(ir::ValueId value, const ir::Node& node,
                                                 bool wanted);
  std::optional<Band> compute_condition(ir::ValueId value, const ir::Node& node, bool wanted);
  std::optional<Band> compute_bias(ir::ValueId value, const ir::Node& node);
  std::optional<Band> comparison(const ir::Node& node, ir::BinaryKind kind, bool wanted);
  std::optional<Band> same_chunk(const ir::Node& node);
  /// Returns the band in which the number `value` is nonzero, or is 0 if not `wanted`.
  std::optional<Band> non_zero(ir::ValueId value, bool wanted);
  std::optional<Band> compute_non_zero(ir::ValueId value, const ir::Node& node, bool wanted);
  std::optional<Band> triangle(const ir::Node& node, bool wanted);
  std::optional<Band> stored(ir::ValueId value, bool wanted);
  std::optional<Band> stored_bias(ir::ValueId value);
  bool is_flag(ir::ValueId value);
  bool compute_is_flag(ir::ValueId value);
  /// Returns the common value of a tensor whose elements are all equal; nullopt if they are not, or
  /// not known to be.
  std::optional<double> number_everywhere(ir::ValueId value);
  std::optional<double> compute_number(ir::ValueId value);
  /// Returns whether all elements of the additive mask `value` that hide a key are `number`.
  bool hides_with(ir::ValueId value, double number);
  bool compute_hides_with(ir::ValueId value, double number);
  /// For a view `value`: finds the band of its operand with `inner`, and returns it in the
  /// coordinates of `value`. Returns nullopt if the node is not a view, and an absent band if none
  /// is found.
  template <class Inner>
  std::optional<std::optional<Band>> through_view(ir::ValueId value, const ir::Node& node,
                                                  Inner inner);

  /// Returns the answer for `key` in `known`, which compute() adds if it is missing. Returns an
  /// empty answer, false or nullopt, if too many answers depend on each other.
  template <class Key, class Answer, class Compute>
  Answer remembered(std::map<Key, Answer>& known, const Key& key, Compute compute) {
    if (const auto found = known.find(key); found != known.end()) return found->second;
    if (depth_ >= kMaxMaskDepth) return Answer();
    ++depth_;
    Answer answer = compute();
    --depth_;
    return known[key] = std::move(answer);
  }

  const Rewriter& rw_;
  IndexAnalysis& indices_;
  MaskShape shape_;
  int depth_ = 0;
  std::map<std::tuple<Question, ir::ValueId, bool>, std::optional<Band>> answers_;
  std::map<ir::ValueId, bool> flags_;
  std::map<ir::ValueId, std::optional<double>> numbers_;
  std::map<std::pair<ir::ValueId, double>, bool> hides_;
};

}  // namespace llmc::passes

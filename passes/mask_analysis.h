#pragma once

#include <optional>

#include "passes/band.h"
#include "passes/index_analysis.h"

/// The keys that a mask leaves visible, as a band.
namespace llmc::passes {

/// Name of the graph input that importers use for the additive mask. By the exporters' convention
/// it is 0 for visible keys and the type's lowest number elsewhere, and causal: it is determined by
/// position and length, so a graph that adds it to its scores is causal.
inline constexpr std::string_view kMaskInput = "attention_mask";

/// The scores' shape: queries S, cached tokens P, keys P + S.
struct MaskShape {
  ir::Dim queries, past, keys;
};

/// Finds bands in comparisons of key and query index (index_analysis.h), and, or, not, where,
/// products with 0 and 1, 1 - x, triangles, views and concatenations of masks, complete overwrites
/// by ScatterND, slices of stored triangles, padding masks of ones, and the graph input
/// `attention_mask`. The last axis of a mask is the keys, the one before it the queries; along the
/// others it must have one element or repeat.
class MaskAnalysis {
 public:
  /// Added numbers of at most this count as minus infinity.
  static constexpr double kHidden = -1e4;

  MaskAnalysis(const Rewriter& rw, IndexAnalysis& indices, MaskShape shape)
      : rw_(rw), indices_(indices), shape_(std::move(shape)) {}

  /// The band where a bool is `wanted`.
  std::optional<Band> condition(ir::ValueId value, bool wanted);
  /// The band where a float is 0, if it is at most kHidden everywhere else.
  std::optional<Band> bias(ir::ValueId value);

 private:
  using Rules = std::optional<Band> (MaskAnalysis::*)(ir::ValueId, const ir::Node&, bool);
  /// The band of a value whose elements are all known, or that `rules` find.
  std::optional<Band> known_or(ir::ValueId value, bool wanted, Rules rules);
  /// Rules that bools and numbers share; nullopt if none applies.
  std::optional<std::optional<Band>> of_any_type(ir::ValueId value, const ir::Node& node,
                                                 bool wanted);
  std::optional<Band> compute_condition(ir::ValueId value, const ir::Node& node, bool wanted);
  std::optional<Band> compute_bias(ir::ValueId value, const ir::Node& node);
  std::optional<Band> comparison(const ir::Node& node, ir::BinaryKind kind, bool wanted);
  std::optional<Band> non_zero(ir::ValueId value, bool wanted);
  std::optional<Band> compute_non_zero(ir::ValueId value, const ir::Node& node, bool wanted);
  std::optional<Band> triangle(const ir::Node& node, bool wanted);
  std::optional<Band> stored(ir::ValueId value, bool wanted);
  std::optional<Band> stored_bias(ir::ValueId value);
  bool is_flag(ir::ValueId value);
  /// The value of a float whose elements are all equal.
  std::optional<double> number_everywhere(ir::ValueId value) const;
  /// For a `value` that is a view of another: the band of that one, which `inner` finds, in the
  /// coordinates of `value`. nullopt if the node is not a view; an empty band if none is found.
  template <class Inner>
  std::optional<std::optional<Band>> through_view(ir::ValueId value, const ir::Node& node,
                                                  Inner inner);

  const Rewriter& rw_;
  IndexAnalysis& indices_;
  MaskShape shape_;
  int depth_ = 0;
};

}  // namespace llmc::passes

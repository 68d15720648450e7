#pragma once

#include <optional>

#include "passes/band.h"
#include "passes/index_analysis.h"

/// What a mask lets through, whatever it is made of.
namespace llmc::passes {

/// The name under which importers pass the additive mask. Exporters' runtimes fill it with 0 where
/// a key may be seen and the type's lowest number elsewhere, causally: it carries nothing that
/// position and length do not say, so a graph that adds it to its scores is causal by convention.
inline constexpr std::string_view kMaskInput = "attention_mask";

/// The scores' shape: queries S, cached tokens P, keys P + S.
struct MaskShape {
  ir::Dim queries, past, keys;
};

/// Finds bands: comparisons of key and query index (index_analysis.h) in any spelling, and, or,
/// not, where, products with 0 and 1, 1 - x, triangles, blocks put side by side, whole overwrites
/// by ScatterND, cut-outs of stored triangles, padding masks of ones, and the graph input
/// `attention_mask`. The last axis of a mask counts keys, the one before queries, others must have
/// one element or repeat.
class MaskAnalysis {
 public:
  /// Numbers at or below count as minus infinity in masks that are added.
  static constexpr double kHidden = -1e4;

  MaskAnalysis(const Rewriter& rw, IndexAnalysis& indices, MaskShape shape)
      : rw_(rw), indices_(indices), shape_(std::move(shape)) {}

  /// Where a bool is `wanted`.
  std::optional<Band> condition(ir::ValueId value, bool wanted);
  /// Where a float is 0, when it is kHidden or less everywhere else.
  std::optional<Band> bias(ir::ValueId value);

 private:
  std::optional<Band> compute_condition(ir::ValueId value, const ir::Node& node, bool wanted);
  std::optional<Band> compute_bias(ir::ValueId value, const ir::Node& node);
  std::optional<Band> comparison(const ir::Node& node, ir::BinaryKind kind, bool wanted);
  std::optional<Band> non_zero(ir::ValueId value, bool wanted);
  std::optional<Band> compute_non_zero(ir::ValueId value, const ir::Node& node, bool wanted);
  std::optional<Band> triangle(const ir::Node& node, bool wanted);
  std::optional<Band> stored(ir::ValueId value, bool wanted);
  std::optional<Band> stored_bias(ir::ValueId value);
  bool is_flag(ir::ValueId value);
  /// The number that a float is everywhere.
  std::optional<double> number_everywhere(ir::ValueId value) const;
  /// For a `value` that is a view of another: the band of that one, which `inner` finds, in the
  /// coordinates of `value`. nullopt if the node is no view; an empty band where none is found.
  template <class Inner>
  std::optional<std::optional<Band>> through_view(ir::ValueId value, const ir::Node& node,
                                                  Inner inner);

  const Rewriter& rw_;
  IndexAnalysis& indices_;
  MaskShape shape_;
  int depth_ = 0;
};

}  // namespace llmc::passes

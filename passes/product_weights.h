#pragma once

#include <functional>
#include <span>

#include "compiler/ir/graph.h"

namespace llmc::passes {

/// A replacement of the weights of products by views of them.
struct WeightRewrite {
  /// Returns whether the weight of this product is to be replaced.
  std::function<bool(const ir::Op&)> wants;
  /// Returns whether matrices are replaced: one, or the same weight of all layers.
  std::function<bool(std::span<const ir::ConstantPtr>)> applies;
  std::function<ir::ConstantPtr(const ir::ConstantPtr&)> make;
  /// Called with each product whose weight was replaced.
  std::function<void(ir::Op&)> replaced;
};

/// Returns whether the operator is a Linear, ExpertLinear or QkvProjection whose weight, operand 1,
/// is stored in a quantized format.
bool has_quantized_weight(const ir::Op& op);

/// Replaces weights in the graph and in the bodies of loops. Other users of a weight, such as a
/// table, keep it.
void rewrite_weights(ir::Graph& graph, const WeightRewrite& rewrite);

}  // namespace llmc::passes

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "compiler/ir/graph.h"

namespace llmc::passes {

/// Number of rows of a panel of interleaved weights. The rows of a panel must belong to one expert.
inline constexpr std::int64_t kExpertPanel = 8;

/// A rule that replaces the weights of products by lazy views of them.
struct WeightRewrite {
  /// Returns whether the rule considers the weight of this product.
  std::function<bool(const ir::Op&)> wants;
  /// Returns whether to replace a weight. The argument is one matrix, or the matrices of all
  /// iterations of a loop.
  std::function<bool(std::span<const ir::ConstantPtr>)> applies;
  std::function<ir::ConstantPtr(const ir::ConstantPtr&)> make;
  /// Called with each product whose weight was replaced.
  std::function<void(ir::Op&)> replaced;
};

/// Returns whether the operator is a Linear, ExpertLinear or QkvProjection whose rows all have a
/// quantized weight format. (The weight is operand 1; its constant may still be f32.)
bool has_quantized_format(const ir::Op& op);

/// Applies `rewrite` to the products with has_quantized_format(), in the graph and in the bodies of
/// loops. Other users of a constant, such as an embedding, keep it. A loop parameter with other
/// users is unchanged.
void rewrite_weights(ir::Graph& graph, const WeightRewrite& rewrite);

/// The weight of a linear layer, and its bias, which may be nullptr.
struct WeightAndBias {
  ir::ConstantPtr weight, bias;
};
/// Returns the concatenated biases, with zeros for missing ones; nullptr if all are missing.
ir::ConstantPtr stack_biases(const std::vector<WeightAndBias>& layers);

}  // namespace llmc::passes

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "passes/match.h"

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

/// A linear layer with a constant weight, and without norm, activation or residual.
struct PlainLinear {
  ir::ValueId x;
  ir::ConstantPtr weight, bias;  // bias: constant, or nullptr if there is none
  std::string name;              // of the weight
};
/// Returns the layer that computes `value`; nullopt if it is not a PlainLinear.
std::optional<PlainLinear> match_plain_linear(const Rewriter& rw, ir::ValueId value);
/// Returns whether the layers read the same x, and their weights have the same element type.
bool can_be_stacked(std::span<const PlainLinear> layers);
/// Emits the weight and bias of a layer that has the rows of all `layers`, which can_be_stacked().
/// Missing biases are zeros. Returns the operands x, weight and, unless all are missing, bias.
std::vector<ir::ValueId> emit_stacked(Rewriter& rw, std::span<const PlainLinear> layers,
                                      NodeIndex anchor);

}  // namespace llmc::passes

#include "compiler/onnx/computed_values.h"

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/ir/op_info.h"
#include "compiler/reference/interpreter.h"

namespace llmc::importer {
namespace {

using ir::ValueId;
using reference::Tensor;

/// Limits that permit shape arithmetic and lists of positions, but not weights.
constexpr std::int64_t kMaxComputedElements = 1 << 12;
constexpr int kMaxComputedDepth = 32, kMaxComputedValues = 256;

/// Returns the node whose only output is `value`; nullptr if there is none. A builder numbers
/// values in the order of their nodes.
const ir::Node* producer_of(const ir::Graph& graph, ValueId value) {
  const auto last_output = [](const ir::Node& node) { return node.outputs.back(); };
  const auto node = std::ranges::lower_bound(graph.nodes(), value, {}, last_output);
  const bool found =
      node != graph.nodes().end() && node->outputs.size() == 1 && node->outputs[0] == value;
  return found ? &*node : nullptr;
}

/// Evaluates values that do not depend on inputs.
class Computed {
 public:
  explicit Computed(const ir::Builder& builder) : builder_(builder) {}

  const Tensor* find(ValueId value, int depth = 0) {
    if (const auto found = values_.find(value); found != values_.end())
      return found->second ? &*found->second : nullptr;
    if (depth > kMaxComputedDepth || std::ssize(values_) > kMaxComputedValues) return nullptr;
    auto result = compute(value, depth);
    const auto& kept = values_[value] = std::move(result);
    return kept ? &*kept : nullptr;
  }

 private:
  std::optional<Tensor> compute(ValueId value, int depth) {
    if (const auto* known = builder_.shape_values().find(value)) {
      const ir::TensorType& type = builder_.graph().value(value).type;
      const auto is_number = [](const ir::Dim& dim) { return dim.is_constant(); };
      if (!std::ranges::all_of(*known, is_number) || !std::ranges::all_of(type.dims, is_number))
        return std::nullopt;
      Tensor sizes{type.element, {}, {}, {}};
      for (const ir::Dim& dim : type.dims) sizes.dims.push_back(*dim.constant());
      for (const ir::Dim& dim : *known) sizes.integers.push_back(*dim.constant());
      return sizes;
    }
    const ir::Node* const node = producer_of(builder_.graph(), value);
    if (node == nullptr) return std::nullopt;
    if (const auto* constant = std::get_if<ir::ConstantOp>(&node->op)) {
      if (constant->data->element_count() > kMaxComputedElements) return std::nullopt;
      return reference::to_tensor(*constant->data);
    }
    std::vector<const Tensor*> operands;
    for (const ValueId input : node->inputs) {
      operands.push_back(input.exists() ? find(input, depth + 1) : nullptr);
      if (input.exists() && !operands.back()) return std::nullopt;
    }
    auto results =
        reference::evaluate_node(*node, operands, {.memory_limit_bytes = kMaxComputedElements * 8});
    if (!results.ok()) return std::nullopt;
    return std::move(results->front());
  }

  const ir::Builder& builder_;
  std::map<ValueId, std::optional<Tensor>> values_;
};

}  // namespace

ir::ConstantPtr computed_constant(const ir::Builder& builder, ValueId value) {
  Computed computed(builder);
  const Tensor* tensor = computed.find(value);
  return tensor ? reference::to_constant(*tensor) : nullptr;
}

}  // namespace llmc::importer

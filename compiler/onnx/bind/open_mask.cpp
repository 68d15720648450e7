#include "compiler/onnx/bind/open_mask.h"

#include <algorithm>

#include "compiler/reference/interpreter.h"

namespace llmc::importer {
namespace {

using ir::ValueId;
using reference::Tensor;

/// Evaluates values of a graph for one token after `past` others. All rows are one token.
class MaskEvaluation {
 public:
  MaskEvaluation(const ir::Graph& graph, const ir::UseDef& uses, const KnownInputs& inputs,
                 std::int64_t past)
      : graph_(graph), uses_(uses), sizes_{{"seq", 1}, {"past", past}} {
    Tensor position = reference::zeros(ir::ElementType::kI64, dims_of(inputs.positions));
    std::ranges::fill(position.integers, past);
    values_[inputs.positions] = std::move(position);
    Tensor ones = reference::zeros(ir::ElementType::kI64, dims_of(inputs.ones));
    std::ranges::fill(ones.integers, 1);
    values_[inputs.ones] = std::move(ones);
  }

  /// Returns nullptr if the value depends on other inputs, is too large, or cannot be evaluated.
  const Tensor* find(ValueId value) {
    auto known = values_.find(value);
    if (known == values_.end()) {
      if (depth_ >= kMaxDepth) return nullptr;
      ++depth_;
      known = values_.emplace(value, compute(value)).first;
      --depth_;
    }
    return known->second ? &*known->second : nullptr;
  }

 private:
  static constexpr int kMaxDepth = 128;
  static constexpr std::uint64_t kMemory = std::uint64_t{1} << 28;  // of one node

  /// Returns the dims of a value; -1 for those that are unknown.
  std::vector<std::int64_t> dims_of(ValueId value) const {
    std::vector<std::int64_t> dims;
    for (const ir::Dim& dim : graph_.value(value).type.dims)
      dims.push_back(dim.evaluate(sizes_).value_or(-1));
    return dims;
  }

  std::optional<Tensor> compute(ValueId value) {
    const ir::Node* node = uses_.producer(value);
    if (node == nullptr) return std::nullopt;
    if (const auto* shape = std::get_if<ir::Shape>(&node->op)) return sizes(*shape, *node);
    std::vector<const Tensor*> operands;
    for (const ValueId input : node->inputs) {
      operands.push_back(input.exists() ? find(input) : nullptr);
      if (input.exists() && operands.back() == nullptr) return std::nullopt;
    }
    auto results = reference::evaluate_node(*node, operands, {.memory_limit_bytes = kMemory});
    if (!results.ok()) return std::nullopt;
    const auto slot = std::ranges::find(node->outputs, value) - node->outputs.begin();
    return std::move((*results)[static_cast<std::size_t>(slot)]);
  }

  /// Evaluates a Shape from the type of its operand, which need not be known itself.
  std::optional<Tensor> sizes(const ir::Shape& op, const ir::Node& node) const {
    const std::vector<std::int64_t> dims = dims_of(node.inputs[0]);
    const auto rank = static_cast<std::int64_t>(dims.size());
    const std::int64_t begin =
        std::clamp<std::int64_t>(op.begin < 0 ? op.begin + rank : op.begin, 0, rank);
    const std::int64_t end = std::clamp<std::int64_t>(op.end < 0 ? op.end + rank : op.end, 0, rank);
    std::vector<std::int64_t> part;
    for (std::int64_t i = begin; i < end; ++i) part.push_back(dims[static_cast<std::size_t>(i)]);
    if (part.empty() || std::ranges::find(part, -1) != part.end()) return std::nullopt;
    const auto count = static_cast<std::int64_t>(part.size());
    return reference::i64_tensor({count}, std::move(part));
  }

  const ir::Graph& graph_;
  const ir::UseDef& uses_;
  const std::map<std::string, std::int64_t> sizes_;
  std::map<ValueId, std::optional<Tensor>> values_;
  int depth_ = 0;
};

}  // namespace

bool is_open_mask(const ir::Graph& graph, const KnownInputs& inputs, ValueId mask) {
  const ir::UseDef uses(graph);
  for (const std::int64_t past : {1, 2, 7, 40, 700, 5000, 20'000, 140'000, 1'100'000}) {
    MaskEvaluation evaluation(graph, uses, inputs, past);
    const Tensor* found = evaluation.find(mask);
    if (found == nullptr || !found->is_float()) return false;
    if (!std::ranges::all_of(found->floats, [](float x) { return x == 0; }) ||
        found->count() != static_cast<std::int64_t>(found->floats.size()))
      return false;
  }
  return true;
}

}  // namespace llmc::importer

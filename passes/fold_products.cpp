#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/quote.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/check.h"
#include "passes/match.h"
#include "passes/transforms.h"

namespace llmc::passes {

namespace {

using ir::ValueId;

/// A node whose result depends on constants only.
struct Evaluated {
  ir::Node node;
  /// Constants by operand; nullptr for an absent operand and for one in `results`.
  std::vector<ir::ConstantPtr> constants = {};
  std::map<std::size_t, std::shared_ptr<const Evaluated>> results = {};  // by operand
  std::size_t evaluations = 1;  // number of nodes that evaluate() evaluates
};

reference::Tensor evaluate(const Evaluated& value) {
  std::vector<reference::Tensor> tensors(value.constants.size());
  for (const auto& [i, result] : value.results) tensors[i] = evaluate(*result);
  std::vector<const reference::Tensor*> operands;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (value.constants[i]) tensors[i] = reference::to_tensor(*value.constants[i]);
    operands.push_back(value.constants[i] || value.results.contains(i) ? &tensors[i] : nullptr);
  }
  auto results = reference::evaluate_node(value.node, operands);
  LLMC_CHECK(results.ok() && results->size() == 1);
  return std::move(results->front());
}

/// The result of a node, evaluated when it is first read.
class EvaluatedConstant final : public ir::Constant {
 public:
  /// `depth`: number of EvaluatedConstants that are read, one for the next, to evaluate this one.
  EvaluatedConstant(std::shared_ptr<const Evaluated> value, std::vector<std::int64_t> dims,
                    std::size_t depth)
      : Constant(ir::ElementType::kF32, std::move(dims)), value_(std::move(value)), depth_(depth) {}
  void read_rows(std::int64_t begin, std::int64_t count, std::span<float> out) const override {
    dense().read_rows(begin, count, out);
  }
  void read_block(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                  std::span<float> out) const override {
    dense().read_block(row, rows, column, columns, out);
  }
  std::vector<std::byte> bytes() const override { return dense().bytes(); }
  std::string describe() const override {
    return "mapped " + ir::quoted("computed:" + value_->node.origin.node);
  }
  std::size_t depth() const { return depth_; }

 private:
  const ir::Constant& dense() const {
    std::call_once(once_, [&] { dense_ = reference::to_constant(evaluate(*value_)); });
    return *dense_;
  }

  std::shared_ptr<const Evaluated> value_;
  std::size_t depth_;
  mutable std::once_flag once_;
  mutable ir::ConstantPtr dense_;
};

/// Returns whether evaluating the operator cannot fail if its types were inferred.
bool is_total(const ir::Op& op) {
  return ir::is_reshape(op) ||
         ir::is_any<ir::MatMul, ir::Gemm, ir::Binary, ir::Unary, ir::Transpose, ir::Reduce,
                    ir::Expand, ir::Cast, ir::LayerNorm, ir::RmsNorm>(op);
}

class ProductFolder {
 public:
  explicit ProductFolder(Rewriter& rw) : rw_(rw) {}

  void run() {
    for (const NodeIndex i : rw_.nodes()) find(rw_.node(i));
    for (const NodeIndex i : rw_.nodes())
      if (rw_.node(i).outputs.size() == 1 && is_folded(rw_.node(i).outputs[0])) fold(i);
    for (const auto& [value, folded] : folded_)
      rw_.replace(value, rw_.emit_constant(folded.constant, folded.anchor));
  }

 private:
  struct Folded {
    std::shared_ptr<const EvaluatedConstant> constant;
    NodeIndex anchor = 0;  // the node that it replaces
  };

  /// Records the node if its result depends on constants only and is not too large.
  void find(const ir::Node& node) {
    constexpr std::int64_t kMaxElements = std::int64_t{1} << 20;
    constexpr std::int64_t kMaxOperand = std::int64_t{1} << 26;
    constexpr std::int64_t kMaxGrowth = 4;  // so that weights do not become many times as large
    if (!is_total(node.op) || node.outputs.size() != 1) return;
    const ir::TensorType& type = rw_.type(node.outputs[0]);
    const auto count = ir::element_count(type);
    if (type.element != ir::ElementType::kF32 || !count || *count == 0 || *count > kMaxElements)
      return;
    bool has_product = ir::is_any<ir::MatMul, ir::Gemm>(node.op);
    std::int64_t read = 0;  // elements of the operands
    for (const ValueId input : node.inputs) {
      if (!input.exists()) continue;
      if (const auto it = has_product_.find(input); it != has_product_.end()) {
        has_product = has_product || it->second;
      } else if (const ir::ConstantPtr data = rw_.constant(input);
                 !data || data->quantization() || data->element_count() > kMaxOperand) {
        return;
      }
      read += ir::element_count(rw_.type(input)).value_or(0);
    }
    if (*count > kMaxGrowth * read) return;
    has_product_[node.outputs[0]] = has_product;
  }

  /// Returns whether other nodes read the value, which depends on a product of constants.
  bool is_folded(ValueId value) const {
    const auto it = has_product_.find(value);
    if (it == has_product_.end() || !it->second || rw_.is_output(value)) return false;
    return std::ranges::any_of(rw_.users(value), [&](NodeIndex user) {
      return !has_product_.contains(rw_.node(user).outputs[0]);
    });
  }

  void fold(NodeIndex i) {
    constexpr std::size_t kMaxEvaluations = 256, kMaxDepth = 32;
    const ValueId value = rw_.node(i).outputs[0];
    const std::int64_t count = *ir::element_count(rw_.type(value));
    std::size_t depth = 1;
    auto node = evaluated(value, kMaxEvaluations, depth);
    if (!node || depth > kMaxDepth || count > elements_ || node->evaluations > evaluations_) return;
    elements_ -= count;
    evaluations_ -= node->evaluations;
    std::vector<std::int64_t> dims;
    for (const ir::Dim& dim : rw_.type(value).dims) dims.push_back(*dim.constant());
    folded_[value] = {std::make_shared<EvaluatedConstant>(std::move(node), std::move(dims), depth),
                      i};
  }

  /// Returns the node that computes `value`, and sets `depth` to that of its constant; nullptr if
  /// more than `limit` nodes must be evaluated.
  std::shared_ptr<const Evaluated> evaluated(ValueId value, std::size_t limit,
                                             std::size_t& depth) const {
    const ir::Node& node = *rw_.producer(value);
    Evaluated made{.node = node};
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      ir::ConstantPtr& constant = made.constants.emplace_back();
      if (const auto it = folded_.find(input); it != folded_.end()) {
        constant = it->second.constant;
        depth = std::max(depth, it->second.constant->depth() + 1);
      } else if (has_product_.contains(input)) {
        if (made.evaluations >= limit) return nullptr;
        auto result = evaluated(input, limit - made.evaluations, depth);
        if (!result) return nullptr;
        made.evaluations += result->evaluations;
        made.results[i] = std::move(result);
      } else if (input.exists()) {
        constant = rw_.constant(input);
      }
    }
    return std::make_shared<const Evaluated>(std::move(made));
  }

  Rewriter& rw_;
  std::map<ValueId, bool> has_product_;  // of values that depend on constants only
  std::map<ValueId, Folded> folded_;
  // What one run may still store and evaluate. evaluate() calls itself at most once for each
  // evaluation, so the latter also bounds the stack.
  std::int64_t elements_ = std::int64_t{1} << 25;
  std::size_t evaluations_ = 2048;
};

}  // namespace

Result<ir::Graph> fold_products(ir::Graph graph, const PassContext& context) {
  const ir::WeightFormat format = context.options.weights.format;
  const bool in_floats = format == ir::WeightFormat::kUnset || format == ir::WeightFormat::kF32;
  if (!in_floats) return graph;
  Rewriter rw(std::move(graph));
  ProductFolder(rw).run();
  return std::move(rw).finish();
}

}  // namespace llmc::passes

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

struct Evaluated;

/// A constant, or the result of a node; neither for an absent operand.
struct EvaluatedOperand {
  ir::ConstantPtr constant;
  std::shared_ptr<const Evaluated> result;
};

/// A node whose result depends on constants only.
struct Evaluated {
  ir::Node node;
  std::vector<EvaluatedOperand> operands = {};
  bool has_product = false;     // whether it or a node above it is a matrix product
  std::size_t evaluations = 1;  // number of nodes that evaluate() evaluates
};

reference::Tensor evaluate(const Evaluated& value) {
  std::vector<reference::Tensor> tensors;
  tensors.reserve(value.operands.size());
  std::vector<const reference::Tensor*> operands;
  for (const EvaluatedOperand& operand : value.operands) {
    if (operand.result)
      tensors.push_back(evaluate(*operand.result));
    else if (operand.constant)
      tensors.push_back(reference::to_tensor(*operand.constant));
    operands.push_back(operand.result || operand.constant ? &tensors.back() : nullptr);
  }
  auto results = reference::evaluate_node(value.node, operands);
  LLMC_CHECK(results.ok() && results->size() == 1);
  return std::move(results->front());
}

/// The result of a node, evaluated when it is first read: most commands do not read weights.
class EvaluatedConstant final : public ir::Constant {
 public:
  EvaluatedConstant(std::shared_ptr<const Evaluated> value, std::vector<std::int64_t> dims)
      : Constant(ir::ElementType::kF32, std::move(dims)), value_(std::move(value)) {}
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

 private:
  const ir::Constant& dense() const {
    std::call_once(once_, [&] { dense_ = reference::to_constant(evaluate(*value_)); });
    return *dense_;
  }

  std::shared_ptr<const Evaluated> value_;
  mutable std::once_flag once_;
  mutable ir::ConstantPtr dense_;
};

/// Returns whether evaluating the operator cannot fail if its types were inferred.
bool is_total(const ir::Op& op) {
  return ir::is_reshape(op) ||
         ir::is_any<ir::MatMul, ir::Gemm, ir::Binary, ir::Unary, ir::Transpose, ir::Reduce,
                    ir::Expand, ir::Cast, ir::LayerNorm, ir::RmsNorm>(op);
}

/// Finds the nodes whose results depend on constants only.
class EvaluatedNodes {
 public:
  explicit EvaluatedNodes(const Rewriter& rw) : rw_(rw) {}

  void visit(const ir::Node& node) {
    constexpr std::int64_t kMaxElements = std::int64_t{1} << 20;
    constexpr std::size_t kMaxEvaluations = 256;
    if (!is_total(node.op) || node.outputs.size() != 1) return;
    const ir::TensorType& type = rw_.type(node.outputs[0]);
    const auto count = ir::element_count(type);
    if (type.element != ir::ElementType::kF32 || !count || *count == 0 || *count > kMaxElements)
      return;
    Evaluated value{.node = node, .has_product = ir::is_any<ir::MatMul, ir::Gemm>(node.op)};
    for (const ValueId input : node.inputs) {
      EvaluatedOperand operand;
      if (const auto it = known_.find(input); it != known_.end()) {
        operand.result = it->second;
        value.has_product = value.has_product || operand.result->has_product;
        value.evaluations += operand.result->evaluations;
      } else if (input.exists()) {
        operand.constant = rw_.constant(input);
        if (!operand.constant || operand.constant->quantization()) return;
      }
      value.operands.push_back(std::move(operand));
    }
    if (value.evaluations > kMaxEvaluations) return;
    known_[node.outputs[0]] = std::make_shared<const Evaluated>(std::move(value));
  }

  /// Returns the result of a node below a product that other nodes read, otherwise nullptr.
  std::shared_ptr<const Evaluated> to_fold(ValueId value) const {
    const auto it = known_.find(value);
    if (it == known_.end() || !it->second->has_product || rw_.is_output(value)) return nullptr;
    const bool is_read = std::ranges::any_of(rw_.users(value), [&](NodeIndex user) {
      return !known_.contains(rw_.node(user).outputs[0]);
    });
    return is_read ? it->second : nullptr;
  }

 private:
  const Rewriter& rw_;
  std::map<ValueId, std::shared_ptr<const Evaluated>> known_;
};

}  // namespace

Result<ir::Graph> fold_products(ir::Graph graph, const PassContext& context) {
  const ir::WeightFormat format = context.options.weights.format;
  const bool in_floats = format == ir::WeightFormat::kUnset || format == ir::WeightFormat::kF32;
  if (!in_floats) return graph;
  Rewriter rw(std::move(graph));
  EvaluatedNodes values(rw);
  for (const NodeIndex i : rw.nodes()) values.visit(rw.node(i));
  std::vector<std::pair<NodeIndex, std::shared_ptr<const Evaluated>>> folded;
  for (const NodeIndex i : rw.nodes())
    if (rw.node(i).outputs.size() == 1)
      if (auto value = values.to_fold(rw.node(i).outputs[0]))
        folded.emplace_back(i, std::move(value));
  for (auto& [i, value] : folded) {
    const ValueId result = rw.node(i).outputs[0];
    std::vector<std::int64_t> dims;
    for (const ir::Dim& dim : rw.type(result).dims) dims.push_back(*dim.constant());
    rw.replace(result,
               rw.emit_constant(std::make_shared<EvaluatedConstant>(std::move(value), dims), i));
  }
  return std::move(rw).finish();
}

}  // namespace llmc::passes

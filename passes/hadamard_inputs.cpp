#include "passes/hadamard_inputs.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <vector>

#include "compiler/ir/hadamard.h"

namespace llmc::passes {

namespace {

/// Number of columns that share the scale of an activation: kSuper of templates/llmc/quant.
constexpr std::int64_t kSuperblock = 256;
constexpr std::size_t kWeight = 1;  // operand of all products

/// Returns the attribute `hadamard` of a product with a quantized weight, or nullptr.
std::int64_t* superblock_of(ir::Op& op) {
  if (auto* linear = std::get_if<ir::Linear>(&op))
    return is_quantized(linear->format) ? &linear->hadamard : nullptr;
  if (auto* experts = std::get_if<ir::ExpertLinear>(&op))
    return is_quantized(experts->format) ? &experts->hadamard : nullptr;
  auto* qkv = std::get_if<ir::QkvProjection>(&op);
  if (!qkv || !is_quantized(qkv->format)) return nullptr;
  const bool all = qkv->value_format == ir::WeightFormat::kUnset || is_quantized(qkv->value_format);
  return all ? &qkv->hadamard : nullptr;
}

bool can_be_transformed(const ir::Constant& matrix) {
  if (matrix.dims().size() != 2 || !is_float(matrix.element()) ||
      !ir::has_hadamard_basis(matrix.dims()[1], kSuperblock))
    return false;
  const std::int64_t rows = matrix.dims()[0];
  if (matrix.quantization()) return false;
  for (std::int64_t row = 0; row < rows; ++row)
    if (matrix.quantization(row, row + 1)) return false;
  return true;
}

class Transformer {
 public:
  /// Processes a graph. `loop` is the operator whose body it is, or nullptr.
  void run(ir::Graph& graph, ir::Loop* loop) {
    std::map<ir::ValueId, std::vector<std::size_t>> products;  // nodes, by weight
    std::vector<ir::Node>& nodes = graph.mutable_nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (auto* inner = std::get_if<ir::Loop>(&nodes[i].op)) {
        auto body = std::make_shared<ir::Graph>(*inner->body);
        run(*body, inner);
        inner->body = std::move(body);
      } else if (const std::int64_t* const superblock = superblock_of(nodes[i].op);
                 superblock && *superblock == 0) {
        products[nodes[i].inputs[kWeight]].push_back(i);
      }
    }
    std::vector<ir::Node> copies;
    const ir::UseDef uses(graph);
    for (const auto& [weight, users] : products) {
      const bool shared = uses.use_count(weight) != users.size();
      const ir::Node* const producer = uses.producer(weight);
      if (!producer) continue;
      ir::Node& node = nodes[static_cast<std::size_t>(producer - nodes.data())];
      ir::ValueId result = weight;
      if (auto* constant = std::get_if<ir::ConstantOp>(&node.op)) {
        if (!can_be_transformed(*constant->data)) continue;
        if (shared) {
          result = graph.add_value(graph.value(weight));
          graph.value(result).name.clear();
          copies.push_back(
              {ir::ConstantOp{transformed(constant->data)}, {}, {result}, node.origin});
        } else {
          constant->data = transformed(constant->data);
        }
      } else if (const auto* parameter = std::get_if<ir::Parameter>(&node.op);
                 !parameter || shared || !loop || !transform_parameter(*loop, *parameter)) {
        continue;
      }
      graph.value(result).type.element = ir::ElementType::kF32;
      for (const std::size_t i : users) {
        nodes[i].inputs[kWeight] = result;
        *superblock_of(nodes[i].op) = kSuperblock;
      }
    }
    nodes.insert(nodes.begin(), std::make_move_iterator(copies.begin()),
                 std::make_move_iterator(copies.end()));
  }

 private:
  ir::ConstantPtr transformed(const ir::ConstantPtr& matrix) {
    ir::ConstantPtr& result = transformed_[matrix.get()];
    if (!result) result = ir::hadamard_weight(matrix, kSuperblock);
    return result;
  }
  bool transform_parameter(ir::Loop& loop, const ir::Parameter& parameter) {
    std::vector<ir::ConstantPtr>& matrices =
        loop.parameters[static_cast<std::size_t>(parameter.index)];
    if (!std::ranges::all_of(matrices, [](const auto& m) { return can_be_transformed(*m); }))
      return false;
    for (ir::ConstantPtr& matrix : matrices) matrix = transformed(matrix);
    return true;
  }

  /// Products with the same matrix share its transform. Holds the matrices, too.
  std::map<const ir::Constant*, ir::ConstantPtr> transformed_;
};

}  // namespace

Result<ir::Graph> hadamard_inputs(ir::Graph graph, const PassContext&) {
  Transformer().run(graph, nullptr);
  return graph;
}

}  // namespace llmc::passes

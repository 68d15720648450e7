#include <algorithm>

#include "compiler/reference/interpreter.h"
#include "passes/match.h"
#include "passes/transforms.h"

namespace llmc::passes {

namespace {

using ir::Dim;
using ir::ValueId;

bool is_constant_node(const ir::Node& node) {
  return std::holds_alternative<ir::ConstantOp>(node.op);
}

/// Returns the integers as a constant of an integer element type; nullptr for other element types.
ir::ConstantPtr integers_as(ir::ElementType element, const std::vector<std::int64_t>& dims,
                            const std::vector<std::int64_t>& values) {
  if (element == ir::ElementType::kI64) return ir::make_i64(dims, values);
  if (!ir::is_integer(element) && element != ir::ElementType::kBool) return nullptr;
  reference::Tensor tensor;
  tensor.element = element;
  tensor.dims = dims;
  tensor.integers = values;
  return reference::to_constant(tensor);
}

/// Folds shape arithmetic whose result has no symbols.
bool fold_shape_value(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  if (is_constant_node(node) || node.outputs.size() != 1 || rw.is_output(node.outputs[0]))
    return false;
  const ir::TensorType& type = rw.type(node.outputs[0]);
  const std::vector<Dim>* known = rw.shape_values().find(node.outputs[0]);
  if (!known || type.rank() > 1) return false;
  const auto values = ir::as_numbers(*known);
  if (!values) return false;
  std::vector<std::int64_t> dims;
  if (type.rank() == 1) dims.push_back(static_cast<std::int64_t>(values->size()));
  const ir::ConstantPtr data = integers_as(type.element, dims, *values);
  if (!data) return false;
  rw.replace(node.outputs[0], rw.emit_constant(data, i));
  return true;
}

/// Returns whether every result has a known size within the limit.
bool results_fit(const Rewriter& rw, const ir::Node& node, std::int64_t limit) {
  return std::ranges::all_of(node.outputs, [&](ValueId output) {
    const auto count = ir::element_count(rw.type(output));
    return count && *count <= limit;
  });
}

/// Returns whether only GatherElements reads the value, as indices, maybe through reshapes.
bool only_indexes(const Rewriter& rw, ValueId value, int depth = 0) {
  constexpr int kMaxReshapes = 4;
  return std::ranges::all_of(rw.users(value), [&](NodeIndex user) {
    const ir::Node& reader = rw.node(user);
    if (ir::is_reshape(reader.op) && reader.inputs[0] == value)
      return depth < kMaxReshapes && only_indexes(rw, reader.outputs[0], depth + 1);
    return std::holds_alternative<ir::GatherElements>(reader.op) && reader.inputs[0] != value;
  });
}

/// Returns whether the node repeats indices for GatherElements, which can read the operand through
/// a view, and its result would be a large constant.
bool is_large_index(const Rewriter& rw, const ir::Node& node) {
  constexpr std::int64_t kMaxExpanded = 4096;
  if (!std::holds_alternative<ir::Expand>(node.op)) return false;
  const auto count = ir::element_count(rw.type(node.outputs[0]));
  const auto before = ir::element_count(rw.type(node.inputs[0]));
  return count && before && *count > kMaxExpanded && *count > *before &&
         only_indexes(rw, node.outputs[0]);
}

bool fold_node(Rewriter& rw, NodeIndex i, std::int64_t limit, std::int64_t& budget) {
  const ir::Node& node = rw.node(i);
  if (is_constant_node(node) || ir::is_any<ir::Loop, ir::Parameter>(node.op) ||
      is_large_index(rw, node) || !results_fit(rw, node, std::min(limit, budget)))
    return false;
  std::vector<reference::Tensor> storage;
  storage.reserve(node.inputs.size());
  std::vector<const reference::Tensor*> operands;
  for (ValueId input : node.inputs) {
    if (!input.exists()) {
      operands.push_back(nullptr);
      continue;
    }
    const ir::ConstantPtr data = rw.constant(input);
    // A quantized matrix keeps its codes and scales.
    if (!data || data->element_count() > limit || data->quantization()) return false;
    storage.push_back(reference::to_tensor(*data));
    operands.push_back(&storage.back());
  }
  // A node that cannot be evaluated (an index out of range) stays and fails at run time.
  const auto results = reference::evaluate_node(node, operands);
  if (!results.ok() || results->size() != node.outputs.size()) return false;
  const std::vector<ValueId> outputs = node.outputs;
  for (std::size_t s = 0; s < outputs.size(); ++s)
    if (!rw.is_output(outputs[s])) {
      budget -= (*results)[s].count();
      rw.replace(outputs[s], rw.emit_constant(reference::to_constant((*results)[s]), i));
    }
  return true;
}

bool fold_transposed_weight(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const auto* transpose = std::get_if<ir::Transpose>(&node.op);
  if (!transpose || transpose->perm != std::vector<std::int64_t>{1, 0}) return false;
  const ir::ConstantPtr data = rw.constant(node.inputs[0]);
  if (!data || rw.is_output(node.outputs[0])) return false;
  rw.replace(node.outputs[0], rw.emit_constant(ir::transposed(data), i));
  return true;
}

/// Replaces the computed shape of a Reshape or Expand by a constant if the types determine it.
bool fold_shape_operand(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const bool reshape = std::holds_alternative<ir::Reshape>(node.op);
  if (!reshape && !std::holds_alternative<ir::Expand>(node.op)) return false;
  if (rw.constant(node.inputs[1])) return false;
  const ValueId x = node.inputs[0], y = node.outputs[0];
  const std::vector<Dim> from = rw.type(x).dims, to = rw.type(y).dims;
  if (reshape) {
    const ValueId result = emit_reshape(rw, x, to, i);
    if (!result.exists() || (result == x && rw.needs_identity(y, x))) return false;
    rw.replace(y, result);
    return true;
  }
  // A 1 in the shape keeps the dim of x.
  std::vector<std::int64_t> shape;
  for (std::size_t a = 0; a < to.size(); ++a) {
    const std::size_t offset = to.size() - from.size();
    if (a >= offset && from[a - offset] == to[a])
      shape.push_back(1);
    else if (to[a].constant())
      shape.push_back(*to[a].constant());
    else
      return false;
  }
  rw.replace(y, rw.emit(ir::Expand{}, {x, emit_integers(rw, std::move(shape), i)}, i));
  return true;
}

}  // namespace

Result<ir::Graph> fold_constants(ir::Graph graph, const PassContext& context) {
  const std::int64_t limit = context.options.fold_limit_elements;
  // Maximum total number of elements of all results, so that they do not exhaust the memory.
  std::int64_t budget = std::int64_t{1} << 24;
  return rewrite_nodes(std::move(graph), [&](Rewriter& rw, NodeIndex i) {
    fold_shape_value(rw, i) || fold_node(rw, i, limit, budget) || fold_transposed_weight(rw, i) ||
        fold_shape_operand(rw, i);
  });
}

}  // namespace llmc::passes

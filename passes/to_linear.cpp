#include <algorithm>
#include <map>

#include "passes/match.h"
#include "passes/transforms.h"

namespace llmc::passes {

namespace {

using ir::ValueId;

/// Emits transposed constants, one for each source, so that products with one matrix share it.
class TransposedConstants {
 public:
  explicit TransposedConstants(Rewriter& rw) : rw_(rw) {}

  ValueId emit(const ir::ConstantPtr& data, const std::string& name, NodeIndex i) {
    ValueId& value = emitted_[data];
    if (!value.exists()) value = rw_.emit_constant(ir::transposed(data), i, name);
    return value;
  }

 private:
  Rewriter& rw_;
  std::map<ir::ConstantPtr, ValueId> emitted_;
};

bool convert_matmul(Rewriter& rw, NodeIndex i, TransposedConstants& transposed) {
  const ir::Node& node = rw.node(i);
  if (!std::holds_alternative<ir::MatMul>(node.op)) return false;
  const ValueId x = node.inputs[0], w = node.inputs[1], y = node.outputs[0];
  if (!is_f32(rw, x, 2) || !is_f32(rw, y)) return false;
  const ir::ConstantPtr data = matrix_constant(rw, w);
  if (!data) return false;
  rw.replace(y, rw.emit(ir::Linear{}, {x, transposed.emit(data, rw.name(w), i)}, i));
  return true;
}

bool convert_gemm(Rewriter& rw, NodeIndex i, TransposedConstants& transposed) {
  const ir::Node& node = rw.node(i);
  const auto* gemm = std::get_if<ir::Gemm>(&node.op);
  if (!gemm || gemm->alpha != 1 || gemm->trans_a) return false;
  const ValueId x = node.inputs[0], w = node.inputs[1], y = node.outputs[0];
  const ir::ConstantPtr data = matrix_constant(rw, w);
  if (!data || !is_f32(rw, x, 2) || !is_f32(rw, y)) return false;
  std::vector<ValueId> inputs{x, ir::kNoValue};
  if (node.operand(2).exists()) {
    const ir::ConstantPtr bias = row_constant(rw, node.inputs[2], y);
    if (!bias || gemm->beta != 1) return false;
    inputs.push_back(constant_operand(rw, node.inputs[2], bias, i));
  }
  inputs[1] =
      gemm->trans_b ? constant_operand(rw, w, data, i) : transposed.emit(data, rw.name(w), i);
  rw.replace(y, rw.emit(ir::Linear{}, std::move(inputs), i));
  return true;
}

bool add_bias(Rewriter& rw, NodeIndex i) {
  const ValueId sum = rw.node(i).outputs[0];
  for (const auto& [product, bias] : either_order(rw, sum, ir::BinaryKind::kAdd)) {
    const auto* linear = rw.op<ir::Linear>(product);
    if (!linear || rw.use_count(product) != 1 || rw.type(product) != rw.type(sum)) continue;
    const ir::Node& old = *rw.producer(product);
    if (linear->gated || linear->function != ir::ActivationFn::kNone) continue;
    if (old.operand(2).exists() || old.operand(4).exists()) continue;
    const ir::ConstantPtr data = row_constant(rw, bias, product);
    if (!data) continue;
    std::vector<ValueId> inputs = old.inputs;
    inputs.resize(std::max<std::size_t>(3, inputs.size()), ir::kNoValue);
    inputs[2] = constant_operand(rw, bias, data, i);
    rw.replace(sum, rw.emit(*linear, std::move(inputs), i));
    return true;
  }
  return false;
}

/// Returns the f32 result of a Gather: its own result, or that of a Cast that is its only user;
/// kNoValue if there is none.
ValueId result_as_float(const Rewriter& rw, ValueId result) {
  if (rw.type(result).element == ir::ElementType::kF32) return result;
  if (rw.use_count(result) != 1 || rw.users(result).empty()) return ir::kNoValue;
  const ir::Node& user = rw.node(rw.users(result)[0]);
  const auto* cast = std::get_if<ir::Cast>(&user.op);
  return cast && cast->to == ir::ElementType::kF32 ? user.outputs[0] : ir::kNoValue;
}

/// Converts a Gather from a constant table in a plain graph, with any indices, to an embedding.
bool convert_lookup(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const auto* gather = std::get_if<ir::Gather>(&node.op);
  if (!gather || gather->axis != 0) return false;
  const ValueId table = node.inputs[0], ids = node.inputs[1];
  const ir::ConstantPtr data = matrix_constant(rw, table);
  const ValueId result = result_as_float(rw, node.outputs[0]);
  if (!data || !result.exists() || rw.constant(ids)) return false;
  rw.replace(result, rw.emit(ir::Embedding{}, {ids, constant_operand(rw, table, data, i)}, i));
  return true;
}

bool convert_gather(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const auto* gather = std::get_if<ir::Gather>(&node.op);
  if (!gather || gather->axis != 0) return false;
  const ValueId table = node.inputs[0], ids = node.inputs[1];
  const ValueId result = result_as_float(rw, node.outputs[0]);
  const ir::ConstantPtr data = matrix_constant(rw, table);
  if (!data || !result.exists() || rw.type(result).rank() == 0) return false;
  // ONNX counts negative indices from the end; token ids and positions are inputs of the graph and
  // are never negative. They fit into i32, so a cast to i32, which onnxruntime's operators require,
  // does not change them.
  ValueId input = strip_views(rw, ids);
  const auto* cast = rw.op<ir::Cast>(input);
  if (cast && cast->to == ir::ElementType::kI32)
    input = strip_views(rw, rw.producer(input)->inputs[0]);
  const auto& input_dims = rw.type(input).dims;
  const auto wide =
      std::ranges::count_if(input_dims, [](const ir::Dim& d) { return !(d == ir::Dim(1)); });
  if (!rw.is_input(input) || input_dims.empty() || wide > 1 ||
      rw.type(input).element != ir::ElementType::kI64)
    return false;
  const std::vector<ir::Dim> dims = rw.type(result).dims;
  const auto tokens =
      std::ranges::find_if(input_dims, [](const ir::Dim& d) { return !(d == ir::Dim(1)); });
  const ir::Dim count = tokens == input_dims.end() ? ir::Dim(1) : *tokens;
  const ValueId flat = emit_reshape(rw, input, {count}, i);
  if (!flat.exists()) return false;
  const ValueId rows = rw.emit(ir::Embedding{}, {flat, constant_operand(rw, table, data, i)}, i);
  const ValueId shaped = emit_reshape(rw, rows, dims, i);
  if (!shaped.exists()) return false;
  rw.replace(result, shaped);
  return true;
}

/// Replaces linear(view(x)) by reshape(linear(x)) if the view keeps rows, so that layers before and
/// after a view with two dims become adjacent.
void move_view_after(Rewriter& rw, NodeIndex i) {
  const ir::Node& node = rw.node(i);
  const ir::Node* view = rw.producer(node.inputs[0]);
  if (rw.type(node.inputs[0]).rank() != 2 || !view ||
      strip_views(rw, node.inputs[0]) == node.inputs[0])
    return;
  const ValueId x = view->inputs[0], y = node.outputs[0];
  if (rw.type(x).rank() < 2 || last_dim(rw, x) != last_dim(rw, node.inputs[0]) ||
      node.operand(4).exists())
    return;
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = x;
  const std::vector<ir::Dim> dims = rw.type(y).dims;
  const ValueId rows = rw.emit(node.op, std::move(inputs), i);
  const ValueId shaped = emit_reshape(rw, rows, dims, i);
  if (shaped.exists()) rw.replace(y, shaped);
}

}  // namespace

Result<ir::Graph> to_linear(ir::Graph graph, const PassContext& context) {
  const bool is_decoder = graph.is_decoder();
  Rewriter rw(std::move(graph));
  TransposedConstants transposed(rw);
  for (const NodeIndex i : rw.nodes()) {
    if (convert_matmul(rw, i, transposed) || convert_gemm(rw, i, transposed) || add_bias(rw, i))
      continue;
    if (is_decoder) {
      convert_gather(rw, i);
    } else if (context.options.weights != ir::WeightFormat::kUnset) {
      convert_lookup(rw, i);
    }
  }
  LLMC_TRY(graph, std::move(rw).finish());
  return rewrite_nodes<ir::Linear>(std::move(graph), move_view_after);
}

}  // namespace llmc::passes

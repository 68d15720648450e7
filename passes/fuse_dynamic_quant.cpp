#include "passes/fusions.h"
#include "passes/match.h"

namespace llmc::passes {

namespace {

using ir::ValueId;

/// Returns one factor, or one for each of `columns` columns; empty if `value` is not an f32
/// constant of this shape.
std::vector<float> factors_of(const Rewriter& rw, ValueId value, std::int64_t columns) {
  const ir::ConstantPtr data = rw.constant(value);
  if (!data || data->element() != ir::ElementType::kF32) return {};
  const std::int64_t count = data->element_count();
  if (count != 1 && (count != columns || data->dims().back() != columns)) return {};
  return ir::to_floats(*data);
}

void move_scale(Rewriter& rw, NodeIndex i) {
  const ValueId y = rw.node(i).outputs[0];
  for (const auto& [product, scale] : either_order(rw, y, ir::BinaryKind::kMul)) {
    if (!rw.op<ir::MatMul>(product) || rw.use_count(product) != 1) continue;
    if (rw.type(product) != rw.type(y)) continue;
    const std::vector<ValueId> inputs = rw.producer(product)->inputs;
    const ir::ConstantPtr matrix = rw.constant(inputs[1]);
    if (!matrix || !ir::quantized_parts(*matrix)) continue;
    const std::vector<float> factors = factors_of(rw, scale, matrix->dims()[1]);
    if (factors.empty()) continue;
    const ir::ConstantPtr scaled = ir::transposed(ir::scaled_rows(ir::transposed(matrix), factors));
    const ValueId weight = rw.emit_constant(scaled, i, rw.name(inputs[1]));
    rw.replace(y, rw.emit(ir::MatMul{}, {inputs[0], weight}, i));
    return;
  }
}

}  // namespace

Result<ir::Graph> fuse_dynamic_quant(ir::Graph graph, const PassContext&) {
  return rewrite_nodes<ir::Binary>(std::move(graph), move_scale);
}

}  // namespace llmc::passes

#include <algorithm>
#include <numeric>

#include "passes/index_analysis.h"
#include "passes/transforms.h"

namespace llmc::passes {

namespace {

using ir::Dim;
using ir::ValueId;

/// Returns the index of the operand that contains positions: of a Rope, or of an Embedding or
/// Gather that looks up rows of a constant table.
std::optional<std::size_t> position_operand(const Rewriter& rw, const ir::Node& node) {
  if (ir::is_any<ir::Rope, ir::Embedding>(node.op))
    return std::holds_alternative<ir::Rope>(node.op) ? 1 : 0;
  const auto* gather = std::get_if<ir::Gather>(&node.op);
  const bool table = gather && gather->axis == 0 && matrix_constant(rw, node.inputs[0]);
  return table ? std::optional<std::size_t>(1) : std::nullopt;
}

/// Returns c >= 0 if `value` is the positions past + c, past + c + 1, … of the new tokens.
std::optional<std::int64_t> position_offset(const Rewriter& rw, IndexAnalysis& indices,
                                            ValueId value, const Dim& seq) {
  const auto* index = indices.find(value);
  const auto after = index ? ir::sub(index->start, Dim::symbol("past")) : std::nullopt;
  const auto offset = after ? after->constant() : std::nullopt;
  if (!offset || *offset < 0) return std::nullopt;
  const auto& dims = rw.type(value).dims;
  Dim wide(1);
  for (std::size_t a = 0; a < dims.size(); ++a) {
    if (dims[a] == Dim(1)) continue;
    if (!(wide == Dim(1)) || !(index->steps[a] == Dim(1))) return std::nullopt;
    wide = dims[a];
  }
  return wide == seq ? offset : std::nullopt;
}

/// Returns whether the graph computes the integers with a Range or CumSum over the tokens, not
/// token by token from its inputs.
bool is_counted(const Rewriter& rw, ValueId value) {
  constexpr std::size_t kMaxVisits = 64;
  std::vector<ValueId> pending{value};
  for (std::size_t at = 0; at < pending.size() && at < kMaxVisits; ++at) {
    const ir::Node* node = rw.producer(pending[at]);
    if (!node) continue;
    if (ir::is_any<ir::Range, ir::CumSum>(node->op)) return true;
    for (const ValueId input : node->inputs)
      if (input.exists() && ir::is_integer(rw.type(input).element)) pending.push_back(input);
  }
  return false;
}

/// Returns whether `value` is 1 for token ids other than a number, and 0 for that number.
bool is_token_mask(const Rewriter& rw, ValueId value, ValueId ids) {
  const auto* cast = rw.op<ir::Cast>(value);
  const ValueId flags = cast ? rw.producer(value)->inputs[0] : ir::kNoValue;
  if (!cast || rw.type(flags).element != ir::ElementType::kBool) return false;
  const auto equal = unary(rw, flags, ir::UnaryKind::kNot);
  const auto sides = equal ? binary(rw, *equal, ir::BinaryKind::kEqual) : std::nullopt;
  return sides && strip_views(rw, sides->left) == ids && scalar_constant(rw, sides->right);
}

/// Positions that skip padding: (past + c + cumsum(mask)) * mask.
struct MaskedPositions {
  ValueId mask;
  std::int64_t offset = 0;  // result for a token with mask 1 minus its position: c + 1
};

/// Matches `value` with MaskedPositions. The runtime appends no padding before a token, so
/// cumsum(mask) of a token with mask 1 is its index in the call plus 1.
std::optional<MaskedPositions> masked_positions(const Rewriter& rw, IndexAnalysis& indices,
                                                ValueId value, ValueId ids, const Dim& seq) {
  for (const auto& [counted, mask] : either_order(rw, value, ir::BinaryKind::kMul)) {
    if (!is_token_mask(rw, mask, ids)) continue;
    for (const auto& [count, past] : either_order(rw, counted, ir::BinaryKind::kAdd)) {
      const auto* cum_sum = rw.op<ir::CumSum>(count);
      const auto& dims = rw.type(count).dims;
      const auto axis = cum_sum ? ir::normalize_axis(cum_sum->axis, dims.size()) : std::nullopt;
      if (!axis || cum_sum->exclusive || cum_sum->reverse || dims[*axis] != seq ||
          rw.producer(count)->inputs[0] != mask || ir::element_count(rw.type(count)))
        continue;
      const auto start = indices.uniform(past);
      const auto after = start ? ir::sub(*start, Dim::symbol("past")) : std::nullopt;
      const auto offset = after ? after->constant() : std::nullopt;
      const bool one_row = std::ranges::count(dims, Dim(1)) + 1 == std::ssize(dims);
      if (offset && one_row) return MaskedPositions{mask, *offset + 1};
    }
  }
  return std::nullopt;
}

/// Returns the constant table without its first `count` rows; nullptr if no rows remain.
ir::ConstantPtr rows_after(const ir::ConstantPtr& table, std::int64_t count) {
  const std::int64_t rows = table->dims()[0];
  if (count >= rows) return nullptr;
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows - count));
  std::iota(order.begin(), order.end(), count);
  return ir::reorder_rows(table, std::move(order));
}

}  // namespace

Result<ir::Graph> canonical_positions(ir::Graph graph, const PassContext&) {
  Rewriter rw(std::move(graph));
  const ValueId ids = rw.graph().input(ir::InputKind::kTokenIds),
                past = rw.graph().input(ir::InputKind::kAttentionCache);
  if (!ids.exists() || !past.exists() || rw.type(ids).rank() != 1) return std::move(rw).finish();
  const Dim seq = rw.type(ids).dims[0];
  ValueId positions = rw.graph().input(ir::InputKind::kPositions);
  const auto need_positions = [&] {
    if (!positions.exists())
      positions = rw.add_input(
          {"position_ids", {ir::ElementType::kI64, {1, seq}}, ir::InputKind::kPositions});
  };
  IndexAnalysis indices(rw);
  for (const NodeIndex i : rw.nodes<ir::Binary>()) {
    const ValueId value = rw.node(i).outputs[0];
    const auto masked = masked_positions(rw, indices, value, ids, seq);
    if (!masked) continue;
    need_positions();
    const ir::TensorType type = rw.type(value);
    ValueId result = emit_reshape(rw, positions, type.dims, i);
    if (!result.exists()) continue;
    const ir::ConstantPtr offset = ir::make_i64({}, {masked->offset});
    result = rw.emit(ir::Binary{ir::BinaryKind::kAdd}, {result, rw.emit_constant(offset, i)}, i);
    if (type.element != ir::ElementType::kI64)
      result = rw.emit(ir::Cast{type.element}, {result}, i);
    rw.replace(value, rw.emit(ir::Binary{ir::BinaryKind::kMul}, {result, masked->mask}, i));
  }
  for (const NodeIndex i : rw.nodes()) {
    const auto operand = position_operand(rw, rw.node(i));
    if (!operand) continue;
    const ValueId value = rw.node(i).inputs[*operand];
    const ir::ElementType element = rw.type(value).element;
    if (value == positions || strip_views(rw, value) == positions || !ir::is_integer(element))
      continue;
    const auto offset = position_offset(rw, indices, value, seq);
    if (!offset) continue;
    ir::ConstantPtr table;
    if (*offset > 0) {
      // Positions with an offset: drop the first `offset` rows of the table instead.
      const bool is_gather = std::holds_alternative<ir::Gather>(rw.node(i).op);
      table = is_gather ? rows_after(matrix_constant(rw, rw.node(i).inputs[0]), *offset) : nullptr;
      if (!table) continue;
    }
    need_positions();
    std::vector<ValueId> inputs = rw.node(i).inputs;
    const std::vector<Dim> dims = rw.type(value).dims;
    inputs[*operand] = positions;
    if (!std::holds_alternative<ir::Rope>(rw.node(i).op))
      inputs[*operand] = emit_reshape(rw, positions, dims, i);
    if (!inputs[*operand].exists()) continue;
    if (table) inputs[0] = rw.emit_constant(table, i, rw.graph().value(inputs[0]).name);
    const ir::Op op = rw.node(i).op;
    const ValueId result = rw.node(i).outputs[0];
    rw.replace(result, rw.emit(op, std::move(inputs), i));
  }
  // All other integers that the graph counts over the tokens become position_ids + offset.
  for (const NodeIndex i : rw.nodes()) {
    if (rw.node(i).outputs.size() != 1) continue;
    const ValueId value = rw.node(i).outputs[0];
    const ir::TensorType type = rw.type(value);
    if (!ir::is_integer(type.element) || !is_counted(rw, value)) continue;
    const auto offset = position_offset(rw, indices, value, seq);
    if (!offset) continue;
    need_positions();
    ValueId result = emit_reshape(rw, positions, type.dims, i);
    if (!result.exists()) continue;
    if (*offset > 0)
      result = rw.emit(ir::Binary{ir::BinaryKind::kAdd},
                       {result, rw.emit_constant(ir::make_i64({}, {*offset}), i)}, i);
    if (type.element != ir::ElementType::kI64)
      result = rw.emit(ir::Cast{type.element}, {result}, i);
    rw.replace(value, result);
  }
  if (positions.exists()) rw.drop_input_if_unused(positions);
  return std::move(rw).finish();
}

}  // namespace llmc::passes

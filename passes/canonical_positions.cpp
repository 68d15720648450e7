#include "passes/canonical_positions.h"

#include <algorithm>

#include "passes/index_analysis.h"

namespace llmc::passes {

namespace {

using ir::Dim;
using ir::ValueId;

constexpr std::string_view kPositions = "position_ids";

ValueId input_named(const Rewriter& rw, std::string_view name) {
  for (ValueId input : rw.graph().inputs())
    if (rw.graph().value(input).name == name) return input;
  return ir::kNoValue;
}

/// Returns the index of the operand that contains positions: that of Rope, or the indices into a
/// constant table.
std::optional<std::size_t> position_operand(const Rewriter& rw, const ir::Node& node) {
  if (std::holds_alternative<ir::Rope>(node.op) || std::holds_alternative<ir::Embedding>(node.op))
    return std::holds_alternative<ir::Rope>(node.op) ? 1 : 0;
  const auto* gather = std::get_if<ir::Gather>(&node.op);
  const bool table = gather && gather->axis == 0 && matrix_constant(rw, node.inputs[0]);
  return table ? std::optional<std::size_t>(1) : std::nullopt;
}

/// Returns whether `value` is the positions past, past + 1, … of the new tokens.
bool counts_tokens(const Rewriter& rw, IndexAnalysis& indices, ValueId value, const Dim& seq) {
  const auto* index = indices.find(value);
  if (!index || !(index->start == Dim::symbol("past"))) return false;
  const auto& dims = rw.type(value).dims;
  Dim wide(1);
  for (std::size_t a = 0; a < dims.size(); ++a) {
    if (dims[a] == Dim(1)) continue;
    if (!(wide == Dim(1)) || !(index->steps[a] == Dim(1))) return false;
    wide = dims[a];
  }
  return wide == seq;
}

}  // namespace

Result<ir::Graph> canonical_positions(ir::Graph graph, const PassContext& context) {
  if (!context.is_decoder) return graph;
  Rewriter rw(std::move(graph));
  const ValueId ids = input_named(rw, "input_ids"), past = input_named(rw, "past.0");
  if (!ids.exists() || !past.exists() || rw.type(ids).rank() != 1) return std::move(rw).finish();
  const Dim seq = rw.type(ids).dims[0];
  ValueId positions = input_named(rw, kPositions);
  IndexAnalysis indices(rw);
  for (NodeIndex i = 0; i < rw.size(); ++i) {
    if (!rw.alive(i)) continue;
    const auto operand = position_operand(rw, rw.node(i));
    if (!operand) continue;
    const ValueId value = rw.node(i).inputs[*operand];
    const ir::ElementType element = rw.type(value).element;
    if (value == positions || strip_views(rw, value) == positions || !ir::is_integer(element) ||
        !counts_tokens(rw, indices, value, seq))
      continue;
    if (!positions.exists())
      positions = rw.add_input({std::string(kPositions), {ir::ElementType::kI64, {1, seq}}});
    std::vector<ValueId> inputs = rw.node(i).inputs;
    const std::vector<Dim> dims = rw.type(value).dims;
    inputs[*operand] = positions;
    if (!std::holds_alternative<ir::Rope>(rw.node(i).op))
      inputs[*operand] = emit_reshape(rw, positions, dims, i);
    if (!inputs[*operand].exists()) continue;
    const ir::Op op = rw.node(i).op;
    const ValueId result = rw.node(i).outputs[0];
    rw.replace(result, rw.emit(op, std::move(inputs), i));
  }
  if (positions.exists()) rw.drop_input_if_unused(positions);
  return std::move(rw).finish();
}

}  // namespace llmc::passes

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "compiler/ir/op_info.h"
#include "compiler/ir/shape_rules.h"
#include "compiler/plan/nest_lower.h"
#include "compiler/support/check.h"

/// Checks which operators of a decoder can be computed row by row, that is, each token's result
/// depends only on the same token's operands.
namespace llmc::plan {
namespace {

using Axis = std::optional<std::size_t>;

/// Returns the number of elements of one row before the dim that counts tokens.
Size elements_before(const Sizes& dims, std::size_t axis) {
  return product(part(dims, 0, axis));
}

/// The row axes of a node's operands and first result, and its constant operands.
struct RowAxes {
  const ir::Graph& graph;
  const ir::Node& node;
  std::function<ir::ConstantPtr(ir::ValueId)> constant;
  std::vector<const Sizes*> dims;  // of the operands, for one row
  const Sizes* result_dims = nullptr;

  Axis in(std::size_t i) const {
    const bool present = i < node.inputs.size() && node.inputs[i].exists();
    return present ? row_axis(graph.value(node.inputs[i]).type) : std::nullopt;
  }
  Axis out() const { return row_axis(graph.value(node.outputs[0]).type); }
  std::size_t rank(std::size_t i) const { return graph.value(node.inputs[i]).type.rank(); }

  /// Returns whether operand i has its rows along `axis`, counted from the end if negative.
  bool along(std::size_t i, std::int64_t axis) const {
    const Axis rows = in(i);
    return rows && ir::normalize_axis(axis, rank(i)) == rows;
  }
  /// Returns whether the integers of operand `bounds` for the row axis of operand 0 are all 0.
  bool zero_at_rows(std::size_t bounds) const {
    const Axis rows = in(0);
    const ir::ConstantPtr data = constant(node.inputs[bounds]);
    const auto values = data ? ir::to_integers(*data)
                             : Result<std::vector<std::int64_t>>(std::vector<std::int64_t>{});
    if (!values.ok() || values->size() != 2 * rank(0)) return false;
    return (*values)[*rows] == 0 && (*values)[rank(0) + *rows] == 0;
  }

  bool operator()(
      const OneOf<ir::Transpose, ir::Expand, ir::ConstantOfShape, ir::Unary, ir::Binary, ir::Where,
                  ir::Cast, ir::GatedActivation, ir::ConstantOp> auto&) const {
    return true;
  }
  // No loop nest exists for these.
  bool operator()(const OneOf<ir::Rope, ir::Attention, ir::CrossAttention, ir::Embedding,
                              ir::Linear, ir::ExpertLinear, ir::NonZero, ir::QkvProjection,
                              ir::Loop, ir::Parameter> auto&) const {
    return true;
  }
  bool operator()(const OneOf<ir::Shape, ir::Range, ir::ScaledAttention> auto&) const {
    return false;
  }
  bool operator()(const OneOf<ir::Reshape, ir::Squeeze, ir::Unsqueeze> auto&) const {
    return same_place();
  }
  bool operator()(
      const OneOf<ir::Split, ir::Softmax, ir::ArgMax, ir::TopK, ir::CumSum> auto& op) const {
    return !along(0, op.axis);
  }
  bool operator()(const OneOf<ir::LayerNorm, ir::RmsNorm> auto&) const { return !along(0, -1); }
  bool operator()(const ir::Slice&) const {
    if (!in(0)) return true;
    if (node.inputs.size() < 4 || !node.inputs[3].exists()) {
      const auto& starts = graph.value(node.inputs[1]).type.dims;
      const auto count = starts.empty() ? std::nullopt : starts[0].constant();
      return count && *count <= static_cast<std::int64_t>(*in(0));
    }
    const ir::ConstantPtr axes = constant(node.inputs[3]);
    const auto values = axes ? ir::to_integers(*axes)
                             : Result<std::vector<std::int64_t>>(std::vector<std::int64_t>{});
    return axes && values.ok() &&
           std::ranges::none_of(*values, [&](std::int64_t axis) { return along(0, axis); });
  }
  bool operator()(const ir::Concat& op) const {
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (along(i, op.axis)) return false;
    return true;
  }
  bool operator()(const ir::Gather& op) const { return !along(0, op.axis) && !(in(0) && in(1)); }
  bool operator()(const ir::GatherElements& op) const {
    return !along(0, op.axis) && in(0) == in(1);
  }
  bool operator()(const ir::ScatterElements& op) const {
    return !along(0, op.axis) && in(0) == in(1) && in(0) == in(2);
  }
  bool operator()(const ir::GatherNd&) const { return !in(0); }
  bool operator()(const ir::ScatterNd&) const { return !in(0) && !in(1) && !in(2); }
  bool operator()(const ir::Tile&) const {
    return !in(0) || (*dims[0])[*in(0)] == (*result_dims)[*out()];
  }
  bool operator()(const ir::Pad&) const { return !in(0) || zero_at_rows(1); }
  bool operator()(const ir::Trilu&) const { return !in(0) || *in(0) + 2 < rank(0); }
  bool operator()(const ir::MatMul&) const {
    return !along(0, -1) && !(rank(1) == 1 ? along(1, -1) : along(1, -2));
  }
  bool operator()(const ir::Gemm& op) const {
    return !along(0, op.trans_a ? 0 : 1) && !along(1, op.trans_b ? 1 : 0);
  }
  bool operator()(const ir::Conv&) const { return (!in(0) || *in(0) == 0) && !in(1); }
  bool operator()(const ir::Unfold&) const { return !in(0) || *in(0) == 0; }
  bool operator()(const ir::Reduce& op) const {
    if (op.axes.empty()) return !in(0);
    return std::ranges::none_of(op.axes, [&](std::int64_t axis) { return along(0, axis); });
  }

 private:
  /// Returns whether row-major order within a row is kept: the number of elements before the row
  /// axis must not change.
  bool same_place() const {
    if (!in(0)) return true;
    return out() && elements_before(*dims[0], *in(0)) == elements_before(*result_dims, *out());
  }
};

/// Returns the first sizes, separated by commas.
std::string first_sizes(std::span<const std::int64_t> sizes) {
  constexpr std::size_t kShown = 8;
  const auto shown = sizes.first(std::min(kShown, sizes.size()));
  return fmt::format("{}{}", fmt::join(shown, ", "), shown.size() < sizes.size() ? ", …" : "");
}

}  // namespace

Status check_splits(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    if (const auto* loop = ir::op_as<ir::Loop>(&node)) {
      LLMC_RETURN_IF_ERROR(check_splits(*loop->body));
    }
    const auto* split = ir::op_as<ir::Split>(&node);
    if (!split) continue;
    const ir::TensorType& whole = graph.value(node.inputs[0]).type;
    const auto axis = ir::normalize_axis(split->axis, whole.rank());
    LLMC_CHECK(axis.has_value());
    const auto& terms = whole.dims[*axis].terms();
    const bool of_call = std::ranges::all_of(
        terms, [](const auto& term) { return term.first == "seq" || term.first == "past"; });
    if (terms.empty() || !of_call) continue;
    return Diagnostic{
        .kind = ErrorKind::kUnsupported,
        .file = node.origin.file,
        .node = node.origin.node,
        .op = std::string(ir::op_name(node.op)),
        .message = fmt::format("divides {} along axis {} into parts of {}, which fit one text only",
                               ir::to_string(whole), *axis, first_sizes(split->sizes)),
        .hint =
            "exporters record sizes of their example as constants, such as the number of "
            "tokens of each expert; export the model so that the graph computes them"};
  }
  return ok_status();
}

Status NestLowerer::check_rows(const ir::Node& node) const {
  const auto has_rows = [&](ir::ValueId value) {
    return value.exists() && row_axis(graph_.value(value).type);
  };
  const auto no_row = [&](std::string_view which, ir::ValueId value) {
    const ir::TensorType& type = graph_.value(value).type;
    Diagnostic d = unsupported(node, fmt::format("its {} {} is not a row of numbers for each token",
                                                 which, ir::to_string(type)));
    if (std::ranges::any_of(type.dims, [](const ir::Dim& d) { return d.terms().contains("past"); }))
      d.hint =
          "cached tokens are read only by attention of a known form: causal, with a window or "
          "chunks, with a bias by distance (docs/passes.md)";
    return d;
  };
  RowAxes axes{graph_, node, [&](ir::ValueId value) { return constant(value); }, {}, nullptr};
  for (const ir::ValueId input : node.inputs) {
    axes.dims.push_back(input.exists() ? dims_of(input) : nullptr);
    if (input.exists() && !dims_of(input) && !is_shape_operand(node, axes.dims.size() - 1))
      return no_row("operand", input);
  }
  for (const ir::ValueId output : node.outputs)
    if (output.exists() && !dims_of(output)) return no_row("result", output);
  if (!std::ranges::any_of(node.inputs, has_rows) && !std::ranges::any_of(node.outputs, has_rows))
    return ok_status();
  axes.result_dims = dims_of(node.outputs[0]);
  if (std::visit(axes, node.op)) return ok_status();
  return unsupported(node, "it mixes the values of different tokens");
}

}  // namespace llmc::plan

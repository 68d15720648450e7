#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "compiler/ir/op_info.h"
#include "compiler/ir/shape_rules.h"
#include "compiler/plan/nest_lower.h"
#include "compiler/plan/nest_rules.h"
#include "compiler/support/check.h"

/// Checks which operators of a decoder can be computed row by row, that is, each token's result
/// depends only on the same token's operands.
namespace llmc::plan {
namespace {

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
    return ir::node_failure(
        ErrorKind::kUnsupported, node,
        fmt::format("divides {} along axis {} into parts of {}, which fit one text only",
                    ir::to_string(whole), *axis, first_sizes(split->sizes)),
        "exporters record sizes of their example as constants, such as the number of tokens of "
        "each expert; export the model so that the graph computes them");
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
  if (keeps_rows(axes)) return ok_status();
  return unsupported(node, "it mixes the values of different tokens");
}

}  // namespace llmc::plan

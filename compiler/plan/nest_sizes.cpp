#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/ir/shape_rules.h"
#include "compiler/plan/nest_lower.h"
#include "compiler/plan/nest_rules.h"
#include "compiler/support/check.h"

/// Checks and lowers nodes of plain graphs whose operands or results have open dims.
namespace llmc::plan {

using ir::ElementType;

Diagnostic NestLowerer::needs_numbers(const ir::Node& node, std::string message) const {
  std::set<std::string> names;
  const auto add_size = [&](const auto& self, const Size& size) -> void {
    if (size.is_constant()) return;
    for (const auto& [monomial, factor] : *size.terms()) {
      for (const OpenDimPtr& dim : monomial) {
        if (dim->numerator)
          self(self, *dim->numerator);
        else
          names.insert(dim->name);
      }
    }
  };
  const auto add = [&](ir::ValueId value) {
    if (!value.exists() || !dims_of(value)) return;
    for (const Size& size : dims(value)) add_size(add_size, size);
  };
  std::ranges::for_each(node.inputs, add);
  std::ranges::for_each(node.outputs, add);
  Diagnostic d = unsupported(node, std::move(message));
  d.hint = "give a number instead of a range: ";
  for (const std::string& name : names)
    d.hint += fmt::format("{}--dim {}=N", name == *names.begin() ? "" : " or ", name);
  return d;
}

Status NestLowerer::check_sizes(const ir::Node& node) const {
  NodeSizes sizes{node, {}, {}};
  bool open = false;
  const auto dims_or_null = [&](ir::ValueId value) -> const Sizes* {
    const Sizes* found = value.exists() ? dims_of(value) : nullptr;
    open = open || (found != nullptr && !all_constant(*found));
    return found;
  };
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    sizes.operands.push_back(dims_or_null(node.inputs[i]));
    LLMC_CHECK(sizes.operands.back() != nullptr || !node.inputs[i].exists() ||
               is_shape_operand(node, i));
  }
  for (const ir::ValueId output : node.outputs) sizes.results.push_back(dims_or_null(output));
  if (!open || sizes_agree(sizes)) return ok_status();
  std::string types;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i].exists() && !is_shape_operand(node, i))
      types += (types.empty() ? "" : ", ") + ir::to_string(graph_.value(node.inputs[i]).type);
  return needs_numbers(node, fmt::format("{} and its result {} may not fit for some of the sizes",
                                         types, ir::to_string(graph_.value(node.outputs[0]).type)));
}

bool NestLowerer::lower_open_sizes(const ir::Node& node) {
  if (host_.by_token() || node.outputs.size() != 1) return false;
  const ir::ValueId y = node.outputs[0];
  const auto sizes = host_.elements(y);
  if (!sizes || all_constant(*sizes)) return false;
  const auto value_of = [&](const Size& size, const Sizes& dims) {
    const ExpressionPtr number =
        index_expression(View{View::kNoBuffer, dims, Sizes(dims.size(), 0), size});
    return element(y) == ElementType::kI64 ? number : cast(element(y), number);
  };
  if (sizes->size() == 1) {
    set(y, value_of(sizes->front(), dims(y)));
    return true;
  }
  const auto count = static_cast<std::int64_t>(sizes->size());
  const View whole = *reshaped(result(y), {count});
  for (std::int64_t i = 0; i < count; ++i)
    emit(node,
         MapStage{sliced(whole, 0, i, 1, 1), value_of((*sizes)[static_cast<std::size_t>(i)], {1})});
  return true;
}

std::optional<Sizes> NestLowerer::known_sizes(const ir::Node& node, std::size_t operand) const {
  if (const auto open = host_.elements(node.inputs[operand])) return open;
  const auto numbers = integers(node, operand);
  if (!numbers.ok()) return std::nullopt;
  return Sizes(numbers->begin(), numbers->end());
}

Status NestLowerer::lower_open_slice(const ir::Node& node) {
  const ir::ValueId x = node.inputs[0], y = node.outputs[0];
  const auto starts = known_sizes(node, 1);
  if (!starts) return needs_numbers(node, "its first elements are not known when compiling");
  LLMC_TRY(const auto axes, slice_axes(node, starts->size()));
  const Sizes &from = dims(x), &to = dims(y);
  Sizes first(from.size(), 0);
  std::vector<std::int64_t> step(from.size(), 1);
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const auto [axis, by] = axes[i];
    const Size& size = from[axis];
    Size& start = first[axis];
    start = (*starts)[i];
    step[axis] = by;
    if (size.is_constant() && start.is_constant()) {
      start =
          ir::slice_range(size.bound(), start.bound(), by > 0 ? INT64_MAX : INT64_MIN, by).start;
    } else if (start.bound() <= INT64_MIN / 2) {
      start = 0;
    } else if (start.bound() < 0) {
      start += size;
    }
  }
  for (std::size_t a = 0; a < from.size(); ++a) {
    const bool whole = first[a] == 0 && step[a] == 1 && to[a] == from[a];
    const Size last = first[a] + (to[a] - 1) * step[a];
    const bool inside = first[a].least() >= 0 && to[a].least() >= 0 &&
                        (step[a] > 0 || last.least() >= 0) && at_most(last + 1, from[a]) &&
                        at_most(first[a], from[a]);
    if (!whole && !inside)
      return needs_numbers(node, fmt::format("its elements may end outside of {}",
                                             ir::to_string(graph_.value(x).type)));
  }
  return lower_view(node, [&](const View& v) -> std::optional<View> {
    View view = v;
    for (std::size_t a = 0; a < from.size(); ++a)
      if (first[a] != 0 || step[a] != 1 || to[a] != from[a])
        view = sliced(view, a, first[a], step[a], to[a]);
    return view;
  });
}

}  // namespace llmc::plan

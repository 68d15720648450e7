#include <numeric>

#include "compiler/ir/shape_rules.h"
#include "compiler/plan/nest_lower.h"
#include "compiler/support/check.h"

/// Lowers data movement: to views where strides can express it, else to one copy.
namespace llmc::plan {

Status NestLowerer::lower(const ir::Node& node, const ir::ConstantOp&) {
  (void)node;  // expression() creates it for nodes that read it as data
  return ok_status();
}

Status NestLowerer::lower_view(const ir::Node& node,
                               const std::function<std::optional<View>(const View&)>& f) {
  const ir::ValueId x = node.inputs[0], y = node.outputs[0];
  if (const auto mapped = map_views(expression(x), f)) {
    set(y, *mapped);
    return ok_status();
  }
  const View whole = stored(x);
  const auto view = f(whole);
  LLMC_CHECK(view.has_value());  // row-major elements can have any shape
  set(y, load(computed_in(element(x)), *view));
  return ok_status();
}

Status NestLowerer::lower_reshaped(const ir::Node& node) {
  return lower_view(node, [&](const View& v) { return reshaped(v, dims(node.outputs[0])); });
}
Status NestLowerer::lower(const ir::Node& node, const ir::Reshape&) {
  return lower_reshaped(node);
}
Status NestLowerer::lower(const ir::Node& node, const ir::Squeeze&) {
  return lower_reshaped(node);
}
Status NestLowerer::lower(const ir::Node& node, const ir::Unsqueeze&) {
  return lower_reshaped(node);
}
Status NestLowerer::lower(const ir::Node& node, const ir::Transpose& op) {
  return lower_view(node, [&](const View& v) { return transposed(v, op.perm); });
}
Status NestLowerer::lower(const ir::Node& node, const ir::Expand&) {
  return lower_view(node, [&](const View& v) { return broadcast(v, dims(node.outputs[0])); });
}

Result<std::vector<std::pair<std::size_t, std::int64_t>>> NestLowerer::slice_axes(
    const ir::Node& node, std::size_t count) const {
  std::vector<std::int64_t> axes(count), steps(count, 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (has(node, 3)) {
    LLMC_TRY(axes, integers(node, 3));
  }
  if (has(node, 4)) {
    LLMC_TRY(steps, integers(node, 4));
  }
  if (axes.size() != count || steps.size() != count)
    return unsupported(node, "its bounds have different lengths");
  std::vector<std::pair<std::size_t, std::int64_t>> result;
  for (std::size_t i = 0; i < count; ++i) {
    const auto axis = ir::normalize_axis(axes[i], dims(node.inputs[0]).size());
    LLMC_CHECK(axis && steps[i] != 0);  // checked by inference
    result.emplace_back(*axis, steps[i]);
  }
  return result;
}

Status NestLowerer::lower(const ir::Node& node, const ir::Slice&) {
  const Sizes& from = dims(node.inputs[0]);
  if (!all_constant(from) || !all_constant(dims(node.outputs[0])) || host_.elements(node.inputs[1]))
    return lower_open_slice(node);
  LLMC_TRY(const auto starts, integers(node, 1));
  LLMC_TRY(const auto ends, integers(node, 2));
  LLMC_TRY(const auto axes, slice_axes(node, starts.size()));
  if (ends.size() != starts.size()) return unsupported(node, "its bounds have different lengths");
  return lower_view(node, [&](const View& v) -> std::optional<View> {
    View view = v;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const auto [axis, step] = axes[i];
      const auto range = ir::slice_range(from[axis].bound(), starts[i], ends[i], step);
      view = sliced(view, axis, range.start, range.step, range.count);
    }
    return view;
  });
}

Status NestLowerer::lower(const ir::Node& node, const ir::Split& op) {
  const ExpressionPtr x = expression(node.inputs[0]);
  const auto axis = ir::normalize_axis(op.axis, dims(node.inputs[0]).size());
  LLMC_CHECK(axis.has_value());
  Size start = 0;
  for (const ir::ValueId part : node.outputs) {
    if (!part.exists()) continue;
    const Size size = dims(part)[*axis];
    const auto mapped = map_views(
        x, [&](const View& v) -> std::optional<View> { return sliced(v, *axis, start, 1, size); });
    set(part, *mapped);
    start += size;
  }
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::Concat& op) {
  const ir::ValueId y = node.outputs[0];
  const auto axis = ir::normalize_axis(op.axis, dims(y).size());
  LLMC_CHECK(axis.has_value());
  std::vector<ExpressionPtr> parts;
  for (const ir::ValueId x : node.inputs) parts.push_back(expression(x));
  const View whole = result(y);
  Size start = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Size size = dims(node.inputs[i])[*axis];
    emit(node, MapStage{sliced(whole, *axis, start, 1, size), parts[i]});
    start += size;
  }
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::Tile&) {
  const ir::ValueId x = node.inputs[0], y = node.outputs[0];
  const Sizes &from = dims(x), &to = dims(y);
  // Repeating [d0, d1] gives [r0, d0, r1, d1] with strides of 0 along the repeats.
  Sizes split;
  for (std::size_t i = 0; i < from.size(); ++i) {
    split.push_back(from[i] == 0 ? 0 : *quotient(to[i], from[i]));
    split.push_back(from[i]);
  }
  const auto repeated = map_views(expression(x), [&](const View& v) -> std::optional<View> {
    View view{v.buffer, split, {}, v.offset};
    for (std::size_t i = 0; i < from.size(); ++i) {
      view.strides.push_back(0);
      view.strides.push_back(v.strides[i]);
    }
    return view;
  });
  const View whole = result(y);
  emit(node, MapStage{*reshaped(whole, split), *repeated});
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::Shape& op) {
  const Sizes& from = dims(node.inputs[0]);
  const auto [begin, end] = ir::shape_range(op, from.size());
  const std::vector<std::int64_t> values =
      bounds(Sizes(from.begin() + static_cast<std::ptrdiff_t>(begin),
                   from.begin() + static_cast<std::ptrdiff_t>(end)));
  const auto count = static_cast<std::int64_t>(values.size());
  const std::uint32_t buffer =
      host_.data(ir::make_i64({count}, values), WeightUse::kData, node.outputs[0]);
  set(node.outputs[0], load(ir::ElementType::kI64, View::dense(buffer, {count})));
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::ConstantOfShape& op) {
  set(node.outputs[0], literal(op.value));
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::Range&) {
  const ir::ValueId y = node.outputs[0];
  const ir::ElementType type = computed_in(element(y));
  // Floats are computed in double precision and rounded once, as in the interpreter.
  const ir::ElementType wide = ir::is_float(type) ? ir::ElementType::kF64 : type;
  const auto operand = [&](std::size_t i) {
    const ExpressionPtr x = broadcast_to(node.inputs[i], dims(y));
    return type == wide ? x : cast(wide, x);
  };
  const ExpressionPtr position = index_expression(View{View::kNoBuffer, dims(y), {1}, 0});
  const ExpressionPtr step = binary(ir::BinaryKind::kMul, wide, cast(wide, position), operand(2));
  const ExpressionPtr value = binary(ir::BinaryKind::kAdd, wide, operand(0), step);
  set(y, type == wide ? value : cast(type, value));
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::Trilu& op) {
  const ir::ValueId x = node.inputs[0], y = node.outputs[0];
  const Sizes& to = dims(y);
  View above{View::kNoBuffer, to, Sizes(to.size(), 0), 0};  // column - row
  above.strides[to.size() - 1] = 1;
  above.strides[to.size() - 2] = -1;
  const ExpressionPtr diagonal =
      has(node, 1) ? broadcast_to(node.inputs[1], to) : literal(ir::ElementType::kI64, 0);
  const auto kind = op.upper ? ir::BinaryKind::kGreaterOrEqual : ir::BinaryKind::kLessOrEqual;
  const ExpressionPtr keep =
      binary(kind, ir::ElementType::kBool, index_expression(above), diagonal);
  set(y, where(keep, expression(x), literal(computed_in(element(x)), 0)));
  return ok_status();
}

CallStage NestLowerer::gather_call(std::vector<ir::ElementType> types,
                                   std::vector<BufferArgument> buffers, const AxisSplit& split,
                                   const Size& count) {
  return {.kernel = "gather",
          .types = std::move(types),
          .buffers = std::move(buffers),
          .numbers = {{"", Size(0)},
                      {"", split.outer},
                      {"size", split.size},
                      {"inner", split.inner},
                      {"count", count}},
          .can_fail = true,
          .split = CallStage::Split::kRange};
}

Status NestLowerer::lower(const ir::Node& node, const ir::Gather& op) {
  const ir::ValueId data = node.inputs[0], indices = node.inputs[1], y = node.outputs[0];
  const auto axis = ir::normalize_axis(op.axis, dims(data).size());
  LLMC_CHECK(axis.has_value());
  const Size size = dims(data)[*axis];
  if (const auto known = constant(indices); known && known->element_count() == 1) {
    LLMC_TRY(const auto numbers, ir::to_integers(*known));
    const Size index = numbers[0] < 0 ? numbers[0] + size : Size(numbers[0]);
    if (index.least() < 0 || !at_most(index + 1, size))
      return unsupported(node, "its index is out of range");
    const Sizes& to = dims(y);
    return lower_view(node,
                      [&](const View& v) { return reshaped(sliced(v, *axis, index, 1, 1), to); });
  }
  const AxisSplit split = around(dims(data), *axis);
  const Stored from = stored_unwidened(data), at = stored_unwidened(indices);
  const View to = result(y);
  emit(node,
       gather_call({from.type, computed_in(element(y)), at.type},
                   {read(from.view), read(at.view), written(to)}, split, product(at.view.dims)));
  return ok_status();
}

}  // namespace llmc::plan

#include <fmt/format.h>

#include "compiler/ir/shape_rules.h"
#include "compiler/plan/nest_lower.h"
#include "compiler/support/check.h"

/// Lowers indexed data movement and padding.
namespace llmc::plan {

using ir::ElementType;

namespace {

std::string_view tag(ir::ScatterReduction reduction) {
  switch (reduction) {
    case ir::ScatterReduction::kNone:
      return "Replace";
    case ir::ScatterReduction::kAdd:
      return "Sum";
    case ir::ScatterReduction::kMul:
      return "Product";
    case ir::ScatterReduction::kMin:
      return "Min";
    case ir::ScatterReduction::kMax:
      return "Max";
  }
  return "";
}

/// Returns the source index of element i of a padded dim, for i from -before to size + after - 1.
std::int64_t padded_source(ir::PadMode mode, std::int64_t i, std::int64_t size) {
  if (mode == ir::PadMode::kEdge) return i < 0 ? 0 : i >= size ? size - 1 : i;
  if (mode == ir::PadMode::kWrap) return ((i % size) + size) % size;
  if (size == 1) return 0;
  const std::int64_t period = 2 * (size - 1);  // 0 1 … size-1 … 1
  const std::int64_t at = ((i % period) + period) % period;
  return at < size ? at : period - at;
}

}  // namespace

Status NestLowerer::lower(const ir::Node& node, const ir::GatherElements& op) {
  const ir::ValueId data = node.inputs[0], y = node.outputs[0];
  const auto axis = ir::normalize_axis(op.axis, dims(data).size());
  LLMC_CHECK(axis.has_value());
  const View from = stored(data, false), at = stored(node.inputs[1], false), to = result(y);
  const Sizes& count = dims(y);
  emit(node, CallStage{.kernel = "gather_elements",
                       .types = {computed_in(element(data)), element(node.inputs[1])},
                       .buffers = {read(from), read(at), written(to)},
                       .numbers = {{"", Size(0)},
                                   {"", product(part(count, 0, count.size() - 1))},
                                   {"size", dims(data)[*axis]},
                                   {"axis", Size(static_cast<std::int64_t>(*axis))},
                                   {"dims", count},
                                   {"strides", from.strides},
                                   {"index_strides", at.strides}},
                       .can_fail = true,
                       .split = CallStage::Split::kRange});
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::ScatterElements& op) {
  const ir::ValueId data = node.inputs[0], y = node.outputs[0];
  const auto axis = ir::normalize_axis(op.axis, dims(data).size());
  LLMC_CHECK(axis.has_value());
  const View from = stored(data), updates = stored(node.inputs[2]);
  const Stored at = stored_unwidened(node.inputs[1]);
  const Sizes& count = dims(node.inputs[1]);
  const View to = result(y);
  emit(node, CallStage{.kernel = "scatter_elements",
                       .types = {computed_in(element(data)), at.type},
                       .tags = {tag(op.reduction)},
                       .buffers = {read(from), read(at.view), read(updates), written(to)},
                       .numbers = {{"total", product(dims(y))},
                                   {"size", dims(data)[*axis]},
                                   {"axis", Size(static_cast<std::int64_t>(*axis))},
                                   {"dims", count},
                                   {"strides", row_major(dims(data))}},
                       .can_fail = true});
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::GatherNd& op) {
  const ir::ValueId data = node.inputs[0], indices = node.inputs[1], y = node.outputs[0];
  const Sizes &from = dims(data), &tuples = dims(indices);
  const auto batch = static_cast<std::size_t>(op.batch_dims);
  LLMC_CHECK(!tuples.empty() && batch < tuples.size() && batch < from.size());
  const auto depth = static_cast<std::size_t>(tuples.back().bound());
  LLMC_CHECK(batch + depth <= from.size());
  const Sizes strides = row_major(from);
  const Stored at = stored_unwidened(indices);
  const View source = stored(data), to = result(y);
  emit(node, CallStage{.kernel = "gather_tuples",
                       .types = {computed_in(element(data)), at.type},
                       .buffers = {read(source), read(at.view), written(to)},
                       .numbers = {{"batches", product(part(from, 0, batch))},
                                   {"batch_stride", product(part(from, batch, from.size()))},
                                   {"tuples", product(part(tuples, batch, tuples.size() - 1))},
                                   {"inner", product(part(from, batch + depth, from.size()))},
                                   {"dims", part(from, batch, batch + depth)},
                                   {"strides", part(strides, batch, batch + depth)}},
                       .can_fail = true});
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::ScatterNd& op) {
  const ir::ValueId data = node.inputs[0], indices = node.inputs[1], y = node.outputs[0];
  const Sizes &from = dims(data), &tuples = dims(indices);
  const auto depth = static_cast<std::size_t>(tuples.back().bound());
  LLMC_CHECK(depth <= from.size());
  const Sizes strides = row_major(from);
  const auto end = static_cast<std::ptrdiff_t>(depth);
  const Stored at = stored_unwidened(indices);
  const View source = stored(data), updates = stored(node.inputs[2]), to = result(y);
  emit(node, CallStage{.kernel = "scatter_tuples",
                       .types = {computed_in(element(data)), at.type},
                       .tags = {tag(op.reduction)},
                       .buffers = {read(source), read(at.view), read(updates), written(to)},
                       .numbers = {{"total", product(from)},
                                   {"tuples", product(Sizes(tuples.begin(), tuples.end() - 1))},
                                   {"inner", product(Sizes(from.begin() + end, from.end()))},
                                   {"dims", Sizes(from.begin(), from.begin() + end)},
                                   {"strides", Sizes(strides.begin(), strides.begin() + end)}},
                       .can_fail = true});
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::Pad& op) {
  const ir::ValueId x = node.inputs[0], y = node.outputs[0];
  const Sizes &from = dims(x), &to = dims(y);
  const std::size_t rank = from.size();
  const ElementType type = computed_in(element(x));
  const auto sizes = op.mode == ir::PadMode::kConstant ? known_sizes(node, 1) : std::nullopt;
  if (sizes) {
    // Fills the whole result, then copies the remaining part of x to its position. A pad may depend
    // on open dims, but its sign may not: a negative pad removes elements.
    LLMC_CHECK(sizes->size() == 2 * rank);
    const ExpressionPtr fill = has(node, 2) ? broadcast_to(node.inputs[2], to) : literal(type, 0);
    const ExpressionPtr value = expression(x);
    const View whole = result(y);
    View kept = whole;
    Sizes first(rank), count(rank);
    for (std::size_t d = 0; d < rank; ++d) {
      const Size &before = (*sizes)[d], &after = (*sizes)[rank + d];
      for (const Size& size : {before, after})
        if (size.least() < 0 && (Size(0) - size).least() < 0)
          return needs_numbers(node, "it may add or remove elements");
      first[d] = before.least() < 0 ? Size(0) - before : Size(0);
      count[d] = from[d] - first[d] + (after.least() < 0 ? after : Size(0));
      if (count[d].bound() < 0) count[d] = 0;
      if (count[d].least() < 0) return needs_numbers(node, "it may remove more than there is");
      kept = sliced(kept, d, before.least() < 0 ? Size(0) : before, 1, count[d]);
    }
    const auto shown = map_views(value, [&](const View& v) -> std::optional<View> {
      View view = v;
      for (std::size_t d = 0; d < rank; ++d) view = sliced(view, d, first[d], 1, count[d]);
      return view;
    });
    if (product(kept.dims) != product(whole.dims)) emit(node, MapStage{whole, fill});
    emit(node, MapStage{kept, *shown});
    return ok_status();
  }
  // One dim at a time: selects rows by a table of indices.
  LLMC_TRY(const auto pads, integers(node, 1));
  LLMC_CHECK(pads.size() == 2 * rank);
  View source = stored(x);
  Sizes now = from;
  for (std::size_t d = 0; d < rank; ++d) {
    if (pads[d] == 0 && pads[rank + d] == 0) continue;
    if (!from[d].is_constant()) return needs_numbers(node, "it repeats elements of an open dim");
    const std::int64_t size = from[d].bound(), padded = to[d].bound();
    if (size == 0 && padded > 0) return unsupported(node, "an empty dim has nothing to repeat");
    constexpr std::int64_t kMaxTable = std::int64_t{1} << 24;
    if (padded > kMaxTable)
      return unsupported(
          node, fmt::format("it repeats elements of a dim to a size of {}, more than {}", padded,
                            kMaxTable));
    std::vector<std::int64_t> table;
    for (std::int64_t i = 0; i < padded; ++i)
      table.push_back(padded_source(op.mode, i - pads[d], size));
    const std::uint32_t indices =
        host_.data(ir::make_i64({padded}, table), WeightUse::kData, node.inputs[1]);
    const AxisSplit split = around(now, d);
    now[d] = to[d];
    const View next = View::dense(scratch(type, product(now), "padded"), now);
    emit(node, gather_call({type, type, ir::ElementType::kI64},
                           {read(source), {indices, 0, false}, written(next)}, split, to[d]));
    source = next;
  }
  set(y, load(type, source));
  return ok_status();
}

}  // namespace llmc::plan

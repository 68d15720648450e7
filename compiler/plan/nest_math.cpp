#include <algorithm>

#include "compiler/ir/shape_rules.h"
#include "compiler/plan/nest_lower.h"
#include "compiler/support/check.h"

/// Lowers matrix products, reductions and row normalizations to kernels of
/// templates/llmc/function/.
namespace llmc::plan {

using ir::ElementType;

Status NestLowerer::product_of(const ir::Node& node, ElementType type, View a, View b, View y,
                               ir::ConstantPtr b_data, bool b_transposed, ir::ValueId b_value) {
  const std::size_t rank = y.dims.size();
  const Size m = y.dims[rank - 2], n = y.dims[rank - 1], k = a.dims.back();
  if (product(y.dims) == 0) return ok_status();
  // Fewer columns do not fill a vector, and a single row is not divided.
  constexpr std::int64_t kVector = 8;
  const bool tiled = !host_.by_token() && type == ElementType::kF32 && n.bound() >= kVector &&
                     product(y.dims).bound() > n.bound();
  const auto multiply_adds = static_cast<std::uint64_t>((product(y.dims) * k).bound());
  if (b_data && type == ElementType::kF32 && k.bound() > 0) {
    // One constant matrix: packed at compile time. The batch dims of the left operand become rows.
    const auto use = b_transposed ? WeightUse::kTransposedPanels : WeightUse::kColumnPanels;
    const std::uint32_t panels = host_.data(b_data, use, b_value);
    emit(node,
         by_rows(CallStage{.kernel = "matmul_panels",
                           .types = {b_data->element()},
                           .buffers = {read(a), {panels, 0, false}, written(y)},
                           .numbers = {{"m", *quotient(product(y.dims), n)}, {"k", k}, {"n", n}},
                           .tiled = tiled,
                           .multiply_adds = multiply_adds},
                 {k, 0, n}));
    return ok_status();
  }
  const auto matrix = [](const View& view, std::size_t from_end) {
    return view.strides[view.strides.size() - from_end];
  };
  // Non-contiguous columns of the right operand are first copied to a panel. For many rows,
  // contiguous columns are copied too, which keeps them in the cache.
  constexpr std::int64_t kManyRows = 16;
  const bool scattered = matrix(b, 1) != 1 && n.bound() > 1;
  const bool packs =
      type == ElementType::kF32 && k.bound() > 0 && (scattered || m.bound() >= kManyRows);
  const auto front = [&](View view) {
    view.dims.resize(rank - 2);
    view.strides.resize(rank - 2);
    return view;
  };
  View batch_a = front(a), batch_b = front(b), batch_y = front(y);
  const Size batches = product(batch_y.dims);
  Size rows = m, row_stride = matrix(a, 2);
  // One matrix on the right: the batch dims become rows. (A single row has no stride of its own.)
  const bool shared = std::ranges::all_of(batch_b.strides, [](const Size& s) { return s == 0; });
  if (shared && a.is_dense() && batches.bound() > 1) {
    rows *= batches;
    row_stride = k;
    batch_a = batch_b = batch_y = View{};
  }
  const Sizes batch = collapse({&batch_a, &batch_b, &batch_y});
  CallStage stage{.kernel = packs ? "matmul_packing" : "matmul",
                  .types = {type},
                  .buffers = {read(a), read(b), written(y)},
                  .numbers = {{"", Size(0)},
                              {"", product(batch) * rows},
                              {"m", rows},
                              {"k", k},
                              {"n", n},
                              {"a_row", row_stride},
                              {"b_row", matrix(b, 2)},
                              {"b_column", matrix(b, 1)},
                              {"batch", batch},
                              {"a_strides", batch_a.strides},
                              {"b_strides", batch_b.strides}},
                  .tiled = tiled,
                  .multiply_adds = multiply_adds,
                  .split = CallStage::Split::kRange};
  if (packs) stage.buffers.push_back(scratch_of_workers(Size(16) * k, "panel"));
  emit(node, std::move(stage));
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::MatMul&) {
  const ir::ValueId av = node.inputs[0], bv = node.inputs[1], yv = node.outputs[0];
  const ElementType type = computed_in(element(yv));
  if (type == ElementType::kBool) return unsupported(node, "a product of bools");
  const bool row = dims(av).size() == 1, column = dims(bv).size() == 1;
  Sizes a_dims = dims(av), b_dims = dims(bv), y_dims = dims(yv);
  if (row) {
    a_dims.insert(a_dims.begin(), 1);
    y_dims.insert(y_dims.end() - (column ? 0 : 1), 1);
  }
  if (column) {
    b_dims.push_back(1);
    y_dims.push_back(1);
  }
  const auto batched = [&](const View& v, const Sizes& matrix) {
    Sizes to = y_dims;
    to[to.size() - 2] = matrix[matrix.size() - 2];
    to[to.size() - 1] = matrix[matrix.size() - 1];
    return broadcast(*reshaped(v, matrix), to);
  };
  ir::ConstantPtr data = constant(bv);
  if (data && (dims(bv).size() != 2 || !ir::is_float(data->element()) || product(dims(bv)) == 0))
    data = nullptr;  // no constant to pack into panels
  // Rows of the left operand must be contiguous; with a constant on the right, the whole operand.
  View a = stored(av, data != nullptr);
  if (!a.strides.empty() && a.strides.back() != 1 && a.dims.back().bound() > 1) a = stored(av);
  View b;
  if (data && type == ElementType::kF32) {
    b = View::dense(0, b_dims);
  } else {
    data = nullptr;
    b = stored(bv, false);
  }
  const View y = result(yv);
  return product_of(node, type, batched(a, a_dims), batched(b, b_dims), *reshaped(y, y_dims), data,
                    false, bv);
}

Status NestLowerer::lower(const ir::Node& node, const ir::Gemm& op) {
  const ir::ValueId av = node.inputs[0], bv = node.inputs[1], yv = node.outputs[0];
  const ElementType type = computed_in(element(yv));
  ir::ConstantPtr data = constant(bv);
  if (data &&
      (type != ElementType::kF32 || !ir::is_float(data->element()) || product(dims(bv)) == 0))
    data = nullptr;
  View a = stored(av, !op.trans_a);
  if (op.trans_a) {
    // The kernel reads contiguous rows of the left operand.
    a = stored(load(type, transposed(a, {1, 0})), {a.dims[1], a.dims[0]}, type, "left");
  }
  View b = data ? View::dense(0, dims(bv)) : stored(bv, false);
  if (op.trans_b) b = transposed(b, {1, 0});
  const bool plain = op.alpha == 1 && !has(node, 2);
  const Sizes to = dims(yv);
  const View y = plain ? result(yv) : View::dense(scratch(type, product(to), "product"), to);
  LLMC_RETURN_IF_ERROR(product_of(node, type, a, b, y, data, op.trans_b, bv));
  if (plain) return ok_status();
  // The loop that reads the result computes alpha * product + beta * c.
  const auto scaled = [&](float factor, ExpressionPtr x) {
    return factor == 1
               ? x
               : binary(ir::BinaryKind::kMul, type, x, literal(type, static_cast<double>(factor)));
  };
  ExpressionPtr value = scaled(op.alpha, load(type, y));
  if (has(node, 2))
    value = binary(ir::BinaryKind::kAdd, type, value,
                   scaled(op.beta, broadcast_to(node.inputs[2], to)));
  set(yv, value);
  return ok_status();
}

NestLowerer::AxisSplit NestLowerer::split_at(const ir::Node& node, std::int64_t axis) const {
  const Sizes& from = dims(node.inputs[0]);
  const auto index = ir::normalize_axis(axis, from.size());
  LLMC_CHECK(index.has_value());
  return around(from, *index);
}

std::vector<CallStage::Number> NestLowerer::numbers_of(const AxisSplit& split) {
  return {{"outer", split.outer}, {"size", split.size}, {"inner", split.inner}};
}

Status NestLowerer::along_axis(const ir::Node& node, const AxisSplit& split, CallStage call,
                               const Size& count) {
  const ir::ValueId x = node.inputs[0];
  call.types = {computed_in(element(x))};
  call.buffers = {read(stored(x))};
  const auto numbers = numbers_of(split);
  call.numbers.insert(call.numbers.begin(), numbers.begin(), numbers.end());
  Sizes steps{split.size * split.inner};
  for (const ir::ValueId y : node.outputs) {
    call.buffers.push_back(written(result(y)));
    steps.push_back(count * split.inner);
  }
  emit(node, by_rows(std::move(call), steps));
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::Softmax& op) {
  const AxisSplit split = split_at(node, op.axis);
  return along_axis(node, split, {.kernel = "softmax"}, split.size);
}

namespace {
std::string_view tag(ir::ReduceKind kind) {
  switch (kind) {
    case ir::ReduceKind::kSum:
      return "Sum";
    case ir::ReduceKind::kMean:
      return "Mean";
    case ir::ReduceKind::kMax:
      return "Max";
    case ir::ReduceKind::kMin:
      return "Min";
    case ir::ReduceKind::kProd:
      return "Product";
  }
  return "";
}
}  // namespace

Status NestLowerer::lower(const ir::Node& node, const ir::Reduce& op) {
  const ir::ValueId x = node.inputs[0], y = node.outputs[0];
  const Sizes& from = dims(x);
  auto axes = ir::normalize_axes(op.axes, from.size());
  LLMC_CHECK(axes.has_value());
  if (axes->empty())
    for (std::size_t i = 0; i < from.size(); ++i) axes->push_back(i);
  // Means of integers are 64-bit sums, then divided: shorter sums could overflow.
  ElementType type = computed_in(element(x));
  const bool widens = op.kind == ir::ReduceKind::kMean && ir::is_integer(type);
  if (widens) type = ElementType::kI64;
  const auto in_memory = [&](bool dense) {
    return widens ? stored(cast(type, expression(x)), from, type, "wide") : stored(x, dense);
  };
  AxisSplit split;
  View source;
  const bool neighbours = axes->empty() || axes->back() - axes->front() + 1 == axes->size();
  if (neighbours) {
    source = in_memory(true);
    const std::size_t first = axes->empty() ? 0 : axes->front();
    for (std::size_t i = 0; i < from.size(); ++i)
      (i < first ? split.outer : i < first + axes->size() ? split.size : split.inner) *= from[i];
  } else {
    // Moves the reduced dims to the end.
    std::vector<std::int64_t> perm;
    for (const bool reduced : {false, true})
      for (std::size_t i = 0; i < from.size(); ++i)
        if (std::ranges::binary_search(*axes, i) == reduced) {
          perm.push_back(static_cast<std::int64_t>(i));
          (reduced ? split.size : split.outer) *= from[i];
        }
    const View turned = transposed(in_memory(false), perm);
    source = stored(load(type, turned), turned.dims, type, "turned");
  }
  const View to =
      widens ? View::dense(scratch(type, product(dims(y)), "mean"), dims(y)) : result(y);
  emit(node, by_rows(CallStage{.kernel = "reduce",
                               .types = {type},
                               .tags = {tag(op.kind)},
                               .buffers = {read(source), written(to)},
                               .numbers = numbers_of(split)},
                     {split.size * split.inner, split.inner}));
  if (widens) set(y, cast(element(y), load(type, to)));
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::ArgMax& op) {
  const AxisSplit split = split_at(node, op.axis);
  if (split.size == 0) return unsupported(node, "the dim is empty");
  return along_axis(node, split,
                    {.kernel = "arg_best",
                     .tags = {op.minimum ? "Smallest" : "Largest", op.last ? "Last" : "First"}},
                    1);
}

Status NestLowerer::lower(const ir::Node& node, const ir::TopK& op) {
  const AxisSplit split = split_at(node, op.axis);
  const Sizes& to = dims(node.outputs[0]);
  const Size k = to[*ir::normalize_axis(op.axis, to.size())];
  if (!at_most(k, split.size)) return unsupported(node, "k exceeds the size of the axis");
  return along_axis(
      node, split,
      {.kernel = "top_k", .tags = {op.largest ? "Largest" : "Smallest"}, .numbers = {{"k", k}}}, k);
}

Status NestLowerer::lower(const ir::Node& node, const ir::CumSum& op) {
  const AxisSplit split = split_at(node, op.axis);
  return along_axis(
      node, split,
      {.kernel = "cumulative_sum",
       .tags = {op.exclusive ? "Excluding" : "Including", op.reverse ? "Backwards" : "Forwards"}},
      split.size);
}

Status NestLowerer::norm_rows(const ir::Node& node, std::string_view kernel, float epsilon) {
  const ir::ValueId x = node.inputs[0];
  const Sizes& from = dims(x);
  const Size n = from.back();
  const Size rows = n == 0 ? 0 : product(part(from, 0, from.size() - 1));
  CallStage call{.kernel = kernel,
                 .types = {computed_in(element(x))},
                 .buffers = {read(stored(x)), read(stored(node.inputs[1]))},
                 .numbers = {{"rows", rows}, {"size", n}, {"epsilon", epsilon}}};
  Sizes steps{n, 0};
  if (has(node, 2)) {
    call.buffers.push_back(read(stored(node.inputs[2])));
    steps.push_back(0);
  }
  call.buffers.push_back(written(result(node.outputs[0])));
  steps.push_back(n);
  emit(node, by_rows(std::move(call), steps));
  return ok_status();
}

Status NestLowerer::lower(const ir::Node& node, const ir::LayerNorm& op) {
  return norm_rows(node, "layer_norm", op.epsilon);
}

Status NestLowerer::lower(const ir::Node& node, const ir::RmsNorm& op) {
  return norm_rows(node, "rms_norm", op.epsilon);
}

}  // namespace llmc::plan

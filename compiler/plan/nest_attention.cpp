#include "compiler/plan/nest_lower.h"
#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"

/// Lowers attention to one kernel, which never stores the scores of all queries at once.
namespace llmc::plan {

using ir::ElementType;

Status NestLowerer::lower(const ir::Node& node, const ir::ScaledAttention& op) {
  constexpr std::int64_t kRows = 32;  // kAttentionRows of templates/llmc/function/attention.h
  const ir::ValueId out = node.outputs[0];
  const Sizes& y_dims = dims(out);
  const std::size_t rank = y_dims.size();
  const Sizes batch(y_dims.begin(), y_dims.end() - 2);
  const Size queries = y_dims[rank - 2], width = y_dims[rank - 1];
  const Size depth = dims(node.inputs[0]).back(), keys = dims(node.inputs[1]).back();
  const auto over_batch = [&](const View& v, const Size& rows, const Size& columns) {
    Sizes to = batch;
    to.push_back(rows);
    to.push_back(columns);
    return broadcast(v, to);
  };
  const auto rows_of = [&](ir::ValueId value) {
    const View v = stored(value, false);
    return v.strides.back() == 1 || v.dims.back() == 1 ? v : stored(value);
  };
  View q = over_batch(rows_of(node.inputs[0]), queries, depth);
  View k = over_batch(stored(node.inputs[1], false), depth, keys);
  View v = over_batch(rows_of(node.inputs[2]), keys, width);
  const bool biased = has(node, 3), masked = has(node, 4);
  // A kernel without a bias or a mask does not read it.
  const View none{.buffer = q.buffer, .dims = {}, .strides = Sizes(rank, 0)};
  View bias = none, hidden = none;
  if (biased) bias = over_batch(stored(node.inputs[3], false), queries, keys);
  if (masked) {
    // 0 keeps the score; any other value replaces it.
    const ExpressionPtr keep = literal(ElementType::kF32, 0);
    const ExpressionPtr fill = literal(ElementType::kF32, static_cast<double>(op.fill));
    const ExpressionPtr value =
        where(expression(node.inputs[4]), op.keeps ? keep : fill, op.keeps ? fill : keep);
    hidden =
        over_batch(stored(value, dims(node.inputs[4]), ElementType::kF32, "mask"), queries, keys);
  }
  const View y = result(out);
  if (product(y_dims) == 0) return ok_status();
  const BufferArgument scores = scratch_of_workers(kRows * keys, "scores");
  const BufferArgument panel = scratch_of_workers(16 * depth, "panel");
  const auto stride = [&](const View& view, std::size_t d) { return view.strides[d]; };
  CallStage stage;
  stage.kernel = "attention";
  stage.types = {ElementType::kF32};
  stage.buffers = {read(q), read(k), read(v), read(bias), read(hidden), written(y), scores, panel};
  const std::int64_t factors[] = {product(batch).bound(), queries.bound(), keys.bound(),
                                  depth.bound() + width.bound()};
  const auto multiply_adds = checked_product(factors);
  if (!multiply_adds) return unsupported(node, "queries and keys have too many elements");
  stage.multiply_adds = static_cast<std::uint64_t>(*multiply_adds);
  stage.tiled = true;
  stage.split = CallStage::Split::kRange;
  const auto front = [&](const View& view) {
    return Sizes(view.strides.begin(), view.strides.end() - 2);
  };
  stage.numbers = {{"", Size(0)},
                   {"", product(batch) * queries},
                   {"queries", queries},
                   {"keys", keys},
                   {"depth", depth},
                   {"width", width},
                   {"scale", op.scale},
                   {"biased", biased},
                   {"masked", masked},
                   {"nan_is_zero", op.nan_is_zero},
                   {"q_row", stride(q, rank - 2)},
                   {"k_row", stride(k, rank - 2)},
                   {"k_column", stride(k, rank - 1)},
                   {"v_row", stride(v, rank - 2)},
                   {"bias_row", stride(bias, rank - 2)},
                   {"bias_column", stride(bias, rank - 1)},
                   {"hidden_row", stride(hidden, rank - 2)},
                   {"hidden_column", stride(hidden, rank - 1)},
                   {"batch", batch},
                   {"q_strides", front(q)},
                   {"k_strides", front(k)},
                   {"v_strides", front(v)},
                   {"bias_strides", front(bias)},
                   {"hidden_strides", front(hidden)}};
  if (op.softcap > 0) {
    stage.tags = {"Capped"};
    stage.numbers.push_back({"cap", op.softcap});
  }
  emit(node, std::move(stage));
  return ok_status();
}

}  // namespace llmc::plan

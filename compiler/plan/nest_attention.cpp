#include <algorithm>

#include "compiler/plan/match_attention.h"
#include "compiler/plan/nest_lower.h"
#include "compiler/support/check.h"

/// Attention as one kernel: the scores of all queries are never stored together.
namespace llmc::plan {

using ir::ElementType;

void NestLowerer::find_attention() {
  for (const ir::Node& node : graph_.nodes()) {
    auto found = match_attention(graph_, uses_, node);
    if (!found || absorbed_.contains(&node)) continue;
    // Scores that are themselves an attention's result are left to the matrix product.
    const bool taken = std::ranges::any_of(found->inner, [&](const ir::Node* inner) {
      return absorbed_.contains(inner) || attention_.contains(inner);
    });
    if (taken) continue;
    absorbed_.insert(found->inner.begin(), found->inner.end());
    attention_.emplace(&node, *std::move(found));
  }
}

void NestLowerer::lower_attention(const ir::Node& node, const AttentionPattern& pattern) {
  constexpr std::int64_t kRows = 32;  // kAttentionRows of templates/llmc/function/attention.h
  const ir::ValueId out = node.outputs[0];
  const Sizes& y_dims = dims(out);
  const std::size_t rank = y_dims.size();
  const Sizes batch(y_dims.begin(), y_dims.end() - 2);
  const Size queries = y_dims[rank - 2], width = y_dims[rank - 1];
  const Size depth = dims(pattern.q).back(), keys = dims(pattern.k).back();
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
  View q = over_batch(rows_of(pattern.q), queries, depth);
  View k = over_batch(stored(pattern.k, false), depth, keys);
  View v = over_batch(rows_of(pattern.v), keys, width);
  const bool masked = pattern.mask.exists(), biased = masked || pattern.bias.exists();
  View bias = q;
  if (pattern.bias.exists()) {
    bias = over_batch(stored(pattern.bias, false), queries, keys);
  } else if (masked) {
    // 0 where the score stays; anything else takes its place.
    const ExpressionPtr none = literal(ElementType::kF32, 0);
    const ExpressionPtr fill = literal(ElementType::kF32, static_cast<double>(pattern.fill));
    const ExpressionPtr value =
        where(expression(pattern.mask), pattern.kept ? none : fill, pattern.kept ? fill : none);
    bias = over_batch(stored(value, dims(pattern.mask), ElementType::kF32, "mask"), queries, keys);
  }
  const View y = result(out);
  if (product(y_dims) == 0) return;
  // Each worker has its own, on cache lines of its own.
  const auto of_workers = [&](const Size& elements, const char* name) {
    constexpr std::int64_t kLine = 16;
    const std::int64_t step = (elements.bound() + kLine - 1) / kLine * kLine;
    const std::uint32_t buffer =
        scratch(ElementType::kF32, step * std::max<std::int64_t>(host_.workers(), 1), name);
    return BufferArgument{.buffer = buffer, .written = true, .slot_step = step};
  };
  const BufferArgument scores = of_workers(kRows * keys, "scores");
  const BufferArgument panel = of_workers(16 * depth, "panel");
  const auto stride = [&](const View& view, std::size_t d) { return view.strides[d]; };
  CallStage stage;
  stage.kernel = masked ? "attention_masked" : biased ? "attention_biased" : "attention";
  stage.types = {ElementType::kF32};
  stage.buffers = {read(q), read(k), read(v)};
  if (biased) stage.buffers.push_back(read(bias));
  stage.buffers.insert(stage.buffers.end(), {written(y), scores, panel});
  stage.multiply_adds =
      static_cast<std::uint64_t>((product(batch) * queries * keys * (depth + width)).bound());
  stage.split = CallStage::Split::kRange;
  stage.numbers = {std::int64_t{0},
                   product(batch),
                   queries,
                   keys,
                   depth,
                   width,
                   pattern.scale,
                   stride(q, rank - 2),
                   stride(k, rank - 2),
                   stride(k, rank - 1),
                   stride(v, rank - 2)};
  if (biased) {
    stage.numbers.emplace_back(stride(bias, rank - 2));
    stage.numbers.emplace_back(stride(bias, rank - 1));
  }
  const auto front = [&](const View& view) {
    return Sizes(view.strides.begin(), view.strides.end() - 2);
  };
  stage.numbers.insert(stage.numbers.end(), {batch, front(q), front(k), front(v)});
  if (biased) stage.numbers.emplace_back(front(bias));
  emit(node, std::move(stage));
}

}  // namespace llmc::plan

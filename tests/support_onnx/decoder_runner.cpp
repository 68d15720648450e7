#include "tests/support_onnx/decoder_runner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace llmc::testing {

using reference::Tensor;

DecoderRunner::DecoderRunner(const importer::ImportedModel& model) : interpreter_(model.graph()) {
  LLMC_CHECK(model.is_decoder());
  for (const auto id : model.graph().inputs()) {
    const auto& value = model.graph().value(id);
    if (value.kind != ir::InputKind::kAttentionCache) continue;
    std::vector<std::int64_t> dims;
    for (const auto& dim : value.type.dims) dims.push_back(dim.constant().value_or(0));
    caches_.push_back(reference::f32_tensor(std::move(dims), {}));
  }
}

Tensor DecoderRunner::input(const ir::Value& value, const std::vector<std::int64_t>& ids) const {
  const auto count = static_cast<std::int64_t>(ids.size());
  if (value.kind == ir::InputKind::kTokenIds) return reference::i64_tensor({count}, ids);
  if (value.kind == ir::InputKind::kPositions) {
    std::vector<std::int64_t> positions(ids.size());
    std::iota(positions.begin(), positions.end(), past_);
    return reference::i64_tensor({1, count}, std::move(positions));
  }
  if (value.kind == ir::InputKind::kPositionAxes) {
    const std::int64_t rows = *value.type.dims[0].constant();
    std::vector<std::int64_t> positions;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = past_; i < past_ + count; ++i)
        positions.push_back(spread_ ? i + 2 * row + row * (i % 3) : i);
    return reference::i64_tensor({rows, count}, std::move(positions));
  }
  if (value.kind == ir::InputKind::kMask) {
    const std::int64_t total = past_ + count;
    std::vector<float> mask(static_cast<std::size_t>(count * total));
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t j = past_ + i + 1; j < total; ++j)
        mask[static_cast<std::size_t>(i * total + j)] = std::numeric_limits<float>::lowest();
    return reference::f32_tensor({1, 1, count, total}, std::move(mask));
  }
  LLMC_CHECK(value.kind == ir::InputKind::kAttentionCache);
  return caches_.at(static_cast<std::size_t>(value.layer));
}

Result<std::vector<float>> DecoderRunner::feed(const std::vector<std::int64_t>& ids) {
  const ir::Graph& graph = interpreter_.graph();
  std::vector<Tensor> inputs;
  for (const auto id : graph.inputs()) inputs.push_back(input(graph.value(id), ids));
  LLMC_TRY(auto outputs, interpreter_.evaluate(inputs));
  LLMC_CHECK(outputs.size() == caches_.size() + 1);
  const Tensor& logits = outputs[0];
  const std::vector<float> last(logits.floats.end() - logits.dims.back(), logits.floats.end());
  for (std::size_t i = 0; i < caches_.size(); ++i) caches_[i] = std::move(outputs[i + 1]);
  past_ += static_cast<std::int64_t>(ids.size());
  return last;
}

Result<std::vector<std::int64_t>> DecoderRunner::greedy(const std::vector<std::int64_t>& prompt,
                                                        std::int64_t count) {
  std::vector<std::int64_t> made;
  std::vector<std::int64_t> next = prompt;
  for (std::int64_t i = 0; i < count; ++i) {
    LLMC_TRY(const auto logits, feed(next));
    made.push_back(argmax(logits));
    next = {made.back()};
  }
  return made;
}

std::int64_t argmax(const std::vector<float>& values) {
  return std::max_element(values.begin(), values.end()) - values.begin();
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<float>::infinity();
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float difference = std::abs(a[i] - b[i]) / (std::abs(b[i]) + 1);
    // Not max(): a NaN has to show.
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

}  // namespace llmc::testing

#include "compiler/calibrate/window_inputs.h"

#include <fmt/format.h>

#include <limits>

namespace llmc::calibrate {
namespace {

using reference::Tensor;

/// Returns the tensor of an input for a window with an empty cache.
Result<Tensor> input_of(const ir::Value& value, const std::vector<std::int32_t>& window) {
  const auto tokens = static_cast<std::int64_t>(window.size());
  const auto problem = [&](const char* what) {
    return failure(ErrorKind::kUnsupported,
                   fmt::format("--calibrate, --fit and --max-kl run decoders of token ids without "
                               "recurrent states: input '{}' {}",
                               printable(value.name), what),
                   "leave them out, and choose a format with --quant");
  };
  std::vector<std::int64_t> dims;
  for (const ir::Dim& dim : value.type.dims) {
    const auto size = dim.evaluate({{"seq", tokens}, {"past", 0}});
    if (!size) return problem("has an unknown size");
    dims.push_back(*size);
  }
  if (value.kind == ir::InputKind::kTokenIds)
    return reference::i64_tensor(dims, {window.begin(), window.end()});
  if (value.kind == ir::InputKind::kPositions || value.kind == ir::InputKind::kPositionAxes) {
    std::vector<std::int64_t> positions;  // one row, or equal rows
    for (std::int64_t row = 0; row < dims[0]; ++row)
      for (std::int64_t t = 0; t < tokens; ++t) positions.push_back(t);
    return reference::i64_tensor(dims, std::move(positions));
  }
  if (value.kind == ir::InputKind::kMask) {
    std::vector<float> mask;
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t key = 0; key < tokens; ++key)
        mask.push_back(key <= t ? 0.0f : std::numeric_limits<float>::lowest());
    return reference::f32_tensor(dims, std::move(mask));
  }
  if (value.kind == ir::InputKind::kAttentionCache)
    return reference::zeros(value.type.element, dims);
  return problem(value.kind == ir::InputKind::kRecurrent ? "is a state" : "is another one");
}

}  // namespace

Result<std::vector<Values>> window_inputs(const ir::Graph& stages,
                                          std::span<const std::vector<std::int32_t>> windows,
                                          std::size_t copies) {
  std::vector<Values> inputs;
  for (const ir::ValueId input : stages.inputs()) {
    Values values, all;
    for (const auto& window : windows) {
      LLMC_TRY(Tensor tensor, input_of(stages.value(input), window));
      values.push_back(std::make_shared<Tensor>(std::move(tensor)));
    }
    for (std::size_t i = 0; i < copies; ++i) all.insert(all.end(), values.begin(), values.end());
    inputs.push_back(std::move(all));
  }
  return inputs;
}

}  // namespace llmc::calibrate

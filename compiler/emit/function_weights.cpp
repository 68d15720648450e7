#include "compiler/emit/function_weights.h"

#include <cstring>

#include "compiler/support/check.h"

namespace llmc::emit {
namespace {

constexpr std::int64_t kPanelColumns = 16;  // templates/llmc/function/matmul.h

void append_element(std::vector<std::byte>& out, ir::ElementType type, float value) {
  std::byte bytes[4];
  std::size_t size = sizeof value;
  if (type == ir::ElementType::kF32) {
    std::memcpy(bytes, &value, sizeof value);
  } else {
    const std::uint16_t half =
        type == ir::ElementType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
    std::memcpy(bytes, &half, size = sizeof half);
  }
  out.insert(out.end(), bytes, bytes + size);
}

/// [N / 16][K][16] of a matrix that the model has as [K, N], or [N, K] when `turned`.
Status write_panels(const plan::FunctionBuffer& buffer, bool turned, const WeightSink& sink) {
  const ir::Constant& data = *buffer.data;
  const std::int64_t k = data.dims()[turned ? 1 : 0], n = data.dims()[turned ? 0 : 1];
  std::vector<float> block;
  std::vector<std::byte> bytes;
  for (std::int64_t column = 0; column < n; column += kPanelColumns) {
    const std::int64_t columns = std::min(kPanelColumns, n - column);
    block.resize(static_cast<std::size_t>(k * columns));
    if (turned) {
      data.read_rows(column, columns, block);
    } else {
      data.read_block(0, k, column, columns, block);
    }
    bytes.clear();
    for (std::int64_t i = 0; i < k; ++i)
      for (std::int64_t j = 0; j < kPanelColumns; ++j) {
        const std::int64_t at = turned ? j * k + i : i * columns + j;
        append_element(bytes, buffer.element,
                       j < columns ? block[static_cast<std::size_t>(at)] : 0.0f);
      }
    LLMC_RETURN_IF_ERROR(sink(bytes));
  }
  return ok_status();
}

}  // namespace

Status write_function_weights(const plan::FunctionPlan& plan, const WeightSink& sink,
                              const WeightProgress& progress) {
  std::uint64_t done = 0;
  const WeightSink counted = [&](std::span<const std::byte> bytes) {
    done += bytes.size();
    return sink(bytes);
  };
  const auto pad_to = [&](std::uint64_t offset) -> Status {
    const std::vector<std::byte> zeros(static_cast<std::size_t>(offset - done), std::byte{0});
    return zeros.empty() ? ok_status() : counted(zeros);
  };
  for (const plan::FunctionBuffer& buffer : plan.program.buffers) {
    if (buffer.place != plan::Place::kWeights) continue;
    LLMC_RETURN_IF_ERROR(pad_to(buffer.offset));
    if (buffer.layout == plan::WeightLayout::kRowMajor) {
      LLMC_RETURN_IF_ERROR(counted(buffer.data->bytes()));
    } else {
      LLMC_RETURN_IF_ERROR(
          write_panels(buffer, buffer.layout == plan::WeightLayout::kTransposedPanels, counted));
    }
    LLMC_CHECK(done == buffer.offset + buffer.bytes());
    if (progress) progress(done, plan.weights_bytes);
  }
  return pad_to(plan.weights_bytes);
}

}  // namespace llmc::emit

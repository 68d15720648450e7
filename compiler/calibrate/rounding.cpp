#include "compiler/calibrate/rounding.h"

#include <algorithm>

#include "compiler/ir/constant_pages.h"
#include "compiler/quant/pack.h"
#include "compiler/quant/products.h"

namespace llmc::calibrate {

std::optional<WeightKind> rounded_kind(ir::WeightFormat format) {
  switch (format) {
    case ir::WeightFormat::kQ4:
      return WeightKind::kQ4;
    case ir::WeightFormat::kQ6:
      return coded_weight(kSixBits);
    case ir::WeightFormat::kQ8:
      return WeightKind::kQ8;
    case ir::WeightFormat::kUnset:
    case ir::WeightFormat::kF16:
    case ir::WeightFormat::kF32:
      break;
  }
  return std::nullopt;
}

Status round_rows(WeightKind kind, std::span<float> rows, std::size_t columns) {
  std::vector<std::byte> panels(weight_bytes(kind, rows.size() / columns, columns));
  LLMC_RETURN_IF_ERROR(quant::pack_panels(kind, rows, columns, 0, panels));
  quant::unpack_panels(kind, panels, columns, rows);
  return ok_status();
}

Result<std::vector<float>> read_transposed(const ir::Constant& matrix, Block block,
                                           WorkerPool& pool, const RowReader& read) {
  const std::size_t rows = static_cast<std::size_t>(matrix.dims()[0]) / block.count;
  const auto columns = static_cast<std::size_t>(matrix.dims()[1]);
  std::vector<float> transposed(rows * columns);
  const std::size_t parts = (rows + kRowsAtOnce - 1) / kRowsAtOnce;
  const Status done = pool.run(parts, [&](std::size_t part) -> Status {
    const std::size_t first = part * kRowsAtOnce, count = std::min(kRowsAtOnce, rows - first);
    std::vector<float> values(count * columns);
    LLMC_RETURN_IF_ERROR(read(block.index * rows + first, values));
    quant::transpose({values.data(), count, columns, columns},
                     {transposed.data() + first, columns, count, rows});
    return ok_status();
  });
  ir::drop_pages(matrix);
  LLMC_RETURN_IF_ERROR(done);
  return transposed;
}

Result<std::vector<float>> read_transposed(const ir::Constant& matrix, Block block,
                                           ir::WeightFormat format, WorkerPool& pool) {
  const auto columns = static_cast<std::size_t>(matrix.dims()[1]);
  const std::optional<WeightKind> kind = rounded_kind(format);
  return read_transposed(
      matrix, block, pool, [&](std::size_t first, std::span<float> values) -> Status {
        matrix.read_rows(static_cast<std::int64_t>(first),
                         static_cast<std::int64_t>(values.size() / columns), values);
        if (!kind || round_rows(*kind, values, columns).ok()) return ok_status();
        return failure(ErrorKind::kBadInput, "a weight is not finite or too large to be rounded",
                       "the model's file is damaged, or try --quant=f32");
      });
}

void multiply(std::span<const float> x, std::span<const float> transposed, std::size_t columns,
              std::span<float> y) {
  const std::size_t tokens = x.size() / columns, rows = transposed.size() / columns;
  std::vector<float> inputs(x.size());
  quant::transpose({x.data(), tokens, columns, columns}, {inputs.data(), columns, tokens, tokens});
  std::ranges::fill(y, 0.0f);
  quant::add_products({inputs.data(), columns, tokens, tokens},
                      {transposed.data(), columns, rows, rows}, {y.data(), tokens, rows, rows});
}

}  // namespace llmc::calibrate

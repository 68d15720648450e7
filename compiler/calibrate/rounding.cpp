#include "compiler/calibrate/rounding.h"

#include <algorithm>

#include "compiler/ir/constant_pages.h"
#include "compiler/quant/products.h"
#include "compiler/quant/q4.h"
#include "compiler/quant/q8.h"
#include "compiler/quant/symmetric.h"
#include "compiler/support/check.h"

namespace llmc::calibrate {
namespace {

/// Number of rows that a thread reads at a time.
constexpr std::size_t kRowsRead = 64;

float largest_weight(ir::WeightFormat format) {
  if (format == ir::WeightFormat::kQ4) return quant::kLargestQ4Weight;
  return format == ir::WeightFormat::kQ6 ? quant::largest_symmetric_weight(kSixBits)
                                         : quant::kLargestQ8Weight;
}

}  // namespace

bool round_row(ir::WeightFormat format, std::span<float> row) {
  const float largest = largest_weight(format);
  if (!std::ranges::all_of(row, [&](float w) { return w <= largest && w >= -largest; }))
    return false;
  if (format == ir::WeightFormat::kQ4) {
    quant::Q4Row encoded;
    quant::encode_q4_row(row, {}, encoded);
    quant::decode_q4_row(encoded, row);
    return true;
  }
  static_assert(kSixBits.block == 32);
  quant::ScaledRow encoded;
  if (format == ir::WeightFormat::kQ6) {
    quant::encode_symmetric_row(kSixBits, row, encoded);
  } else {
    LLMC_CHECK(format == ir::WeightFormat::kQ8);
    quant::encode_q8_row(row, encoded);
  }
  quant::decode_scaled_row(encoded, row);
  return true;
}

Result<std::vector<float>> read_transposed(const ir::Constant& matrix, ir::WeightFormat format,
                                           WorkerPool& pool) {
  const auto rows = static_cast<std::size_t>(matrix.dims()[0]);
  const auto columns = static_cast<std::size_t>(matrix.dims()[1]);
  std::vector<float> transposed(rows * columns);
  const Status read = pool.run((rows + kRowsRead - 1) / kRowsRead, [&](std::size_t part) -> Status {
    const std::size_t first = part * kRowsRead, count = std::min(kRowsRead, rows - first);
    std::vector<float> values(count * columns);
    matrix.read_rows(static_cast<std::int64_t>(first), static_cast<std::int64_t>(count), values);
    for (std::size_t r = 0; r < count && format != ir::WeightFormat::kUnset; ++r)
      if (!round_row(format, std::span(values).subspan(r * columns, columns)))
        return failure(ErrorKind::kBadInput, "a weight is not finite or too large to be rounded",
                       "the model's file is damaged, or try --quant=f32");
    quant::transpose({values.data(), count, columns, columns},
                     {transposed.data() + first, columns, count, rows});
    return ok_status();
  });
  ir::drop_pages(matrix);
  LLMC_RETURN_IF_ERROR(read);
  return transposed;
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

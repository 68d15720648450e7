#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "compiler/ir/constant.h"
#include "compiler/ir/op.h"
#include "compiler/quant/encoded_matrix.h"
#include "compiler/support/worker_pool.h"

/// Rounds matrices to weight formats and multiplies by them.
namespace llmc::calibrate {

/// Number of rows that a thread reads or encodes at a time, a multiple of the rows of a panel.
inline constexpr std::size_t kRowsAtOnce = 64;

/// Returns the storage of matrices in kQ4, kQ6 or kQ8; nullopt for other formats.
std::optional<WeightKind> rounded_kind(ir::WeightFormat format);

/// Rounds rows of `columns` weights in place, without calibration (quant/pack.h). Fails with
/// kBadInput if a weight is not finite or too large for the format.
Status round_rows(WeightKind kind, std::span<float> rows, std::size_t columns);

/// One of `count` equally large row blocks of a matrix.
struct Block {
  std::size_t index = 0, count = 1;
};

/// Callback: sets `values` to rows of a matrix, from row `first` of the whole matrix on. Called in
/// parallel, for at most kRowsAtOnce rows.
using RowReader = std::function<Status(std::size_t first, std::span<float> values)>;
/// Returns a block of a matrix transposed, [columns, rows]. `read` provides the rows, `matrix` the
/// dims. Fails like `read`.
Result<std::vector<float>> read_transposed(const ir::Constant& matrix, Block block,
                                           WorkerPool& pool, const RowReader& read);
/// The same with the rows of `matrix`, which are rounded to `format` if it is kQ4, kQ6 or kQ8.
/// Fails with kBadInput if a weight cannot be rounded.
Result<std::vector<float>> read_transposed(const ir::Constant& matrix, Block block,
                                           ir::WeightFormat format, WorkerPool& pool);

/// Computes y [tokens, rows] from x [tokens, columns] and a transposed matrix [columns, rows].
void multiply(std::span<const float> x, std::span<const float> transposed, std::size_t columns,
              std::span<float> y);

}  // namespace llmc::calibrate

#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "compiler/ir/constant.h"
#include "compiler/ir/op.h"
#include "compiler/quant/encoded_matrix.h"
#include "compiler/support/worker_pool.h"

/// Matrices as a compiled model multiplies by them.
namespace llmc::calibrate {

/// Number of rows that a thread reads or encodes at a time, a multiple of those of a panel.
inline constexpr std::size_t kRowsAtOnce = 64;

/// Returns the kind of matrices in kQ4, kQ6 or kQ8; nullopt for other formats.
std::optional<WeightKind> rounded_kind(ir::WeightFormat format);

/// Rounds rows of `columns` weights, without a text (quant/). Fails with kBadInput if a weight is
/// not finite or too large for the format.
Status round_rows(WeightKind kind, std::span<float> rows, std::size_t columns);

/// One of `count` blocks of as many rows.
struct Block {
  std::size_t index = 0, count = 1;
};

/// Reads a block of a matrix with two dims and transposes it: [columns, rows]. read(first, values)
/// sets the matrix' rows from `first` on; it is called in parallel, for kRowsAtOnce rows or those
/// that are left.
using RowReader = std::function<Status(std::size_t first, std::span<float> values)>;
Result<std::vector<float>> read_transposed(const ir::Constant& matrix, Block block,
                                           WorkerPool& pool, const RowReader& read);
/// The same, where rows are those of the matrix, rounded unless `format` is kUnset.
Result<std::vector<float>> read_transposed(const ir::Constant& matrix, Block block,
                                           ir::WeightFormat format, WorkerPool& pool);

/// Computes y [tokens, rows] from x [tokens, columns] and a transposed matrix [columns, rows].
void multiply(std::span<const float> x, std::span<const float> transposed, std::size_t columns,
              std::span<float> y);

}  // namespace llmc::calibrate

#pragma once

#include <span>
#include <vector>

#include "compiler/ir/constant.h"
#include "compiler/ir/op.h"
#include "compiler/support/worker_pool.h"

/// Matrices as a compiled model multiplies by them.
namespace llmc::calibrate {

/// Rounds a row of weights to a format, without a text (quant/): kQ4, kQ6 or kQ8. Returns false if
/// a weight is not finite or too large for the format.
bool round_row(ir::WeightFormat format, std::span<float> row);

/// Reads a matrix with two dims, rounds its rows unless `format` is kUnset, and transposes it:
/// [columns, rows]. Fails with kBadInput if it cannot be rounded.
Result<std::vector<float>> read_transposed(const ir::Constant& matrix, ir::WeightFormat format,
                                           WorkerPool& pool);

/// Computes y [tokens, rows] from x [tokens, columns] and a transposed matrix [columns, rows].
void multiply(std::span<const float> x, std::span<const float> transposed, std::size_t columns,
              std::span<float> y);

}  // namespace llmc::calibrate

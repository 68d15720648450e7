#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compiler/calibrate/stream.h"

/// Evaluates a product for windows that read different versions of its matrix, such as rounded
/// ones.
namespace llmc::calibrate {

/// Returns the operands of a window.
std::vector<const reference::Tensor*> operands_of(const std::vector<Values>& operands,
                                                  std::size_t window);

struct WindowVersion {
  std::size_t window = 0, version = 0;
};
/// Returns the transposed versions of a block of the matrix (blocks_of()).
using BlockReader = std::function<Result<std::vector<std::vector<float>>>(std::size_t block)>;

/// Returns the results of the product, [result][window], for the windows of `runs`, which names
/// each at most once (LLMC_CHECK); others are empty. Reads one block after the other, and no block
/// without inputs, and releases the operands of a window when its results are there. The result
/// does not depend on threads.
Result<std::vector<Values>> run_product(const ir::Node& node, std::size_t columns,
                                        std::vector<Values>& operands, std::size_t windows,
                                        std::span<const WindowVersion> runs,
                                        const BlockReader& read, WorkerPool& pool);

}  // namespace llmc::calibrate

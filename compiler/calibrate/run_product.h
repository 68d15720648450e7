#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compiler/calibrate/stream.h"

/// Evaluates a product for windows that read different versions of its matrix, such as rounded
/// ones.
namespace llmc::calibrate {

/// Returns the tensors of a window's operands.
std::vector<const reference::Tensor*> operands_of(const std::vector<Values>& operands,
                                                  std::size_t window);

struct WindowVersion {
  std::size_t window = 0, version = 0;
};
/// Callback: reads one row block (see blocks_of()) of every version of the matrix, transposed.
using BlockReader = std::function<Result<std::vector<std::vector<float>>>(std::size_t block)>;

/// Returns the results of the product, [result][window], for the windows in `runs`, each of which
/// occurs at most once (LLMC_CHECK). The results of other windows are nullptr. Reads the blocks one
/// after the other and skips experts without inputs. Releases the operands of a window once its
/// results exist. Fails like `read` and the interpreter. The result does not depend on threads.
Result<std::vector<Values>> run_product(const ir::Node& node, std::size_t columns,
                                        std::vector<Values>& operands, std::size_t windows,
                                        std::span<const WindowVersion> runs,
                                        const BlockReader& read, WorkerPool& pool);

}  // namespace llmc::calibrate

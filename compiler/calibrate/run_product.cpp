#include "compiler/calibrate/run_product.h"

#include <algorithm>

#include "compiler/calibrate/matrix_products.h"
#include "compiler/calibrate/rounding.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/check.h"

namespace llmc::calibrate {
namespace {

using reference::Tensor;

/// The products of a window's inputs and each block.
using BlockProducts = std::vector<std::vector<float>>;

/// Computes the products of all windows, one block after the other.
Result<std::vector<BlockProducts>> multiply_blocks(const ir::Node& node, std::size_t columns,
                                                   const std::vector<Values>& operands,
                                                   std::span<const WindowVersion> runs,
                                                   const BlockReader& read, WorkerPool& pool) {
  const std::size_t blocks = blocks_of(node);
  std::vector<BlockProducts> products(runs.size(), BlockProducts(blocks));
  std::vector<std::vector<float>> rows(runs.size());
  for (std::size_t block = 0; block < blocks; ++block) {
    LLMC_RETURN_IF_ERROR(pool.run(runs.size(), [&](std::size_t i) -> Status {
      LLMC_TRY(auto input,
               reference::product_input(node, operands_of(operands, runs[i].window), block));
      rows[i] = std::move(input.rows);
      return ok_status();
    }));
    if (std::ranges::all_of(rows, [](const auto& of_window) { return of_window.empty(); }))
      continue;
    LLMC_TRY(const auto versions, read(block));
    LLMC_RETURN_IF_ERROR(pool.run(runs.size(), [&](std::size_t i) -> Status {
      const std::vector<float>& matrix = versions[runs[i].version];
      products[i][block].resize(rows[i].size() / columns * (matrix.size() / columns));
      multiply(rows[i], matrix, columns, products[i][block]);
      return ok_status();
    }));
  }
  return products;
}

}  // namespace

std::vector<const Tensor*> operands_of(const std::vector<Values>& operands, std::size_t window) {
  std::vector<const Tensor*> given;
  for (const Values& operand : operands) given.push_back(of_window(operand, window).get());
  return given;
}

Result<std::vector<Values>> run_product(const ir::Node& node, std::size_t columns,
                                        std::vector<Values>& operands, std::size_t windows,
                                        std::span<const WindowVersion> runs,
                                        const BlockReader& read, WorkerPool& pool) {
  std::vector<bool> listed(windows, false);
  for (const WindowVersion& run : runs) {
    LLMC_CHECK(run.window < windows && !listed[run.window]);
    listed[run.window] = true;
  }
  std::vector<std::vector<float>> versions;
  std::vector<BlockProducts> products;
  const bool one_block = blocks_of(node) == 1;
  if (one_block) {
    LLMC_TRY(versions, read(0));
  } else {
    LLMC_TRY(products, multiply_blocks(node, columns, operands, runs, read, pool));
  }
  std::vector<Values> results(node.outputs.size(), Values(windows));
  LLMC_RETURN_IF_ERROR(pool.run(runs.size(), [&](std::size_t i) -> Status {
    reference::InterpreterOptions how;
    how.product = [&](std::size_t block, std::span<const float> x, std::span<float> y) {
      if (one_block)
        multiply(x, versions[runs[i].version], columns, y);
      else
        std::ranges::copy(std::exchange(products[i][block], {}), y.begin());
    };
    const std::size_t window = runs[i].window;
    LLMC_TRY(auto made, reference::evaluate_node(node, operands_of(operands, window), how));
    for (std::size_t r = 0; r < results.size(); ++r)
      results[r][window] = std::make_shared<Tensor>(std::move(made[r]));
    release_window(operands, window);
    return ok_status();
  }));
  return results;
}

}  // namespace llmc::calibrate

#pragma once

#include <memory>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/reference/tensor.h"
#include "compiler/support/result.h"
#include "compiler/support/worker_pool.h"

/// Evaluates a graph for many windows, one node after the other. A window is a part of the
/// calibration's text, whose tokens are read with empty caches.
namespace llmc::calibrate {

using TensorPtr = std::shared_ptr<const reference::Tensor>;
/// One tensor for each window, or one for all. Windows may share tensors.
using Values = std::vector<TensorPtr>;

inline const TensorPtr& of_window(const Values& values, std::size_t window) {
  return values[values.size() == 1 ? 0 : window];
}
/// Releases a window's references to its operands. Keeps operands with one tensor for all windows.
/// May be called concurrently for different windows.
inline void release_window(std::vector<Values>& operands, std::size_t window) {
  for (Values& operand : operands)
    if (operand.size() > 1) operand[window].reset();
}

/// Returns, for each of `windows` windows, the first window with the same operands: the same
/// objects, not only equal values. An operator needs to be evaluated for these first windows only.
std::vector<std::size_t> first_with_same(const std::vector<Values>& operands, std::size_t windows);

/// Interface of stream() for products with constant weights: evaluates them, and can inspect their
/// inputs.
class Products {
 public:
  virtual ~Products() = default;
  /// Returns whether stream() must visit `node`, a product with this weight, even if no other node
  /// reads its result.
  virtual bool wants(const ir::Node& node, const ir::Constant& weight) const = 0;
  /// Called with the operands of each product that is reached. The operand of the weight has only
  /// its dims.
  virtual Status visit(const ir::Node&, const ir::ConstantPtr&, const std::vector<Values>&) {
    return ok_status();
  }
  /// Returns the results, [result][window], of a product of which other nodes read a result. Called
  /// after visit(). May release the operands of a window after their last use.
  virtual Result<std::vector<Values>> run(const ir::Node& node, const ir::ConstantPtr& weight,
                                          std::vector<Values> operands) = 0;
};

/// Runs the nodes of `graph` that are needed for the products that `products` wants and, with
/// `wants_output`, for the first output. Returns this output, or an empty value without
/// `wants_output`. `inputs` are in the order of the graph's inputs. Windows whose operands are the
/// same objects share the results of operators other than products.
Result<Values> stream(const ir::Graph& graph, std::vector<Values> inputs, std::size_t windows,
                      Products& products, WorkerPool& pool, bool wants_output = false);

}  // namespace llmc::calibrate

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/reference/tensor.h"
#include "compiler/support/result.h"

/// Executable semantics of the IR: a simple interpreter for all operators, imported and fused. It
/// is the reference for tests and evaluates constants for folding. It is not optimized, but fast
/// enough for small models.
///
/// Precision: floats are f32, except that f64 tensors are computed in f64. Sums (products, norms,
/// softmax, reductions) are accumulated in double and rounded once. Elementary functions are
/// computed in double and rounded; exp, tanh, erf, sin and cos do not use libm (functions.h). f16
/// and bf16 results are rounded to nearest even. The weight formats of Linear, QkvProjection and
/// ExpertLinear do not affect the result, because weights are used as floats.
namespace llmc::reference {

/// Callback: computes y [rows of x, rows of the block] from x [rows of x, columns] and one row
/// block of a weight. The blocks of an ExpertLinear's weight are its experts. Other weights have
/// one block.
using Product =
    std::function<void(std::size_t block, std::span<const float> x, std::span<float> y)>;

struct InterpreterOptions {
  /// Maximum total size in bytes of all values that exist at the same time, including cached
  /// constants but not the caller's inputs. Evaluation fails with kOverBudget if it is exceeded.
  std::uint64_t memory_limit_bytes = std::uint64_t{6} << 30;
  /// Maximum total size in bytes of constants, and of values computed only from constants, that an
  /// Interpreter keeps between calls. Others are computed in each call.
  std::uint64_t constant_cache_bytes = std::uint64_t{3} << 30;
  /// For evaluate_node(): if set, computes the products of a Linear, QkvProjection or ExpertLinear.
  /// For an ExpertLinear, it is called for each expert that has rows, in order. The operand of the
  /// weight then needs only its dims.
  Product product = {};
};

/// Rows that are multiplied by a block of a weight.
struct ProductInput {
  std::vector<float> rows;          // [places.size(), columns]
  std::vector<std::size_t> places;  // index of each row in the operand; ascending
};
/// Returns the rows that a Linear, QkvProjection or ExpertLinear multiplies by its weight: those of
/// its first operand after norm and Hadamard transform. For an ExpertLinear, `block` selects the
/// rows of one expert. The operand of the weight needs only its dims.
Result<ProductInput> product_input(const ir::Node& node, const std::vector<const Tensor*>& operands,
                                   std::optional<std::size_t> block = std::nullopt);

/// Evaluates one graph any number of times. Not thread-safe.
class Interpreter {
 public:
  /// The graph must pass verify().
  explicit Interpreter(ir::Graph graph, InterpreterOptions options = {});
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;

  const ir::Graph& graph() const;
  /// Evaluates the graph. `inputs` are in the order of the graph's inputs, results in the order of
  /// its outputs. Fails with kBadInput if shapes are wrong or an index is out of range, and with
  /// kOverBudget if the memory limit is exceeded. The error names the node and operator, or the
  /// input.
  Result<std::vector<Tensor>> evaluate(std::span<const Tensor> inputs);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Evaluates the graph once, with a temporary Interpreter.
Result<std::vector<Tensor>> evaluate(const ir::Graph& graph, std::span<const Tensor> inputs,
                                     const InterpreterOptions& options = {});

/// Evaluates one node without a graph. Absent operands are nullptr. Does not support Loop and
/// Parameter.
Result<std::vector<Tensor>> evaluate_node(const ir::Node& node,
                                          const std::vector<const Tensor*>& operands,
                                          const InterpreterOptions& options = {});

}  // namespace llmc::reference

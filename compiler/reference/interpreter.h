#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/reference/tensor.h"
#include "compiler/support/result.h"

/// Executable semantics of the IR: a simple interpreter of all operators, imported or fused. Serves
/// as the oracle of tests and for constant folding. Not optimized, but fast enough for small
/// models.
///
/// Precision: values are f32; sums (products, norms, softmax, reductions) are accumulated in double
/// and rounded once; elementary functions are computed in double and rounded. f16 and bf16 results
/// are rounded to nearest even. Weight formats of Linear and QkvProjection do not affect the
/// result: weights are used as floats.
namespace llmc::reference {

struct InterpreterOptions {
  /// Limit for all values including cached constants; beyond it evaluation fails with kOverBudget.
  std::uint64_t memory_limit_bytes = std::uint64_t{6} << 30;
  /// Limit for constants (and values that depend only on them) kept between calls of one
  /// Interpreter; others are computed again in each call.
  std::uint64_t constant_cache_bytes = std::uint64_t{3} << 30;
};

/// Evaluates one graph any number of times. Not thread-safe.
class Interpreter {
 public:
  /// The graph must pass verify().
  explicit Interpreter(ir::Graph graph, InterpreterOptions options = {});
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;

  const ir::Graph& graph() const;
  /// `inputs` are in the order of the graph's inputs, results in that of its outputs. Errors, with
  /// node and operator: wrong shapes, indices out of range, too much memory.
  Result<std::vector<Tensor>> evaluate(std::span<const Tensor> inputs);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Evaluates the graph once without keeping anything.
Result<std::vector<Tensor>> evaluate(const ir::Graph& graph, std::span<const Tensor> inputs,
                                     const InterpreterOptions& options = {});

/// Evaluates one node on its operands (nullptr if absent), without a graph. Not for Loop and
/// Parameter.
Result<std::vector<Tensor>> evaluate_node(const ir::Node& node,
                                          const std::vector<const Tensor*>& operands,
                                          const InterpreterOptions& options = {});

}  // namespace llmc::reference

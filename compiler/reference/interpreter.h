#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/reference/tensor.h"
#include "compiler/support/result.h"

/// The meaning of the IR, executable: a plain interpreter of every operator, imported or fused. The
/// oracle of the tests and what folds constants. Not fast, but fast enough to run small models.
///
/// Precision: values are f32; sums (products, norms, softmax, reductions) are accumulated in double
/// and rounded once; elementary functions are computed in double and rounded. f16 and bf16 results
/// are rounded to nearest even. Weight formats of Linear and QkvProjection do not change the
/// result: weights are used as floats.
namespace llmc::reference {

struct InterpreterOptions {
  /// All values, cached constants included. Beyond it evaluation fails with kOverBudget.
  std::uint64_t memory_limit_bytes = std::uint64_t{6} << 30;
  /// Constants (and what only depends on them) that are kept between calls of one Interpreter;
  /// those that find no room are made anew each time.
  std::uint64_t constant_cache_bytes = std::uint64_t{3} << 30;
};

/// Evaluates one graph any number of times. Not for several threads at once.
class Interpreter {
 public:
  /// The graph must verify.
  explicit Interpreter(ir::Graph graph, InterpreterOptions options = {});
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;

  const ir::Graph& graph() const;
  /// `inputs` in the order of the graph's inputs; results in the order of its outputs. Errors name
  /// node and operator: shapes that do not fit, indices out of range, too much memory.
  Result<std::vector<Tensor>> evaluate(std::span<const Tensor> inputs);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Once, nothing kept.
Result<std::vector<Tensor>> evaluate(const ir::Graph& graph, std::span<const Tensor> inputs,
                                     const InterpreterOptions& options = {});

/// One node on its operands (nullptr where one is absent), without a graph around it. Not for Loop
/// and Parameter.
Result<std::vector<Tensor>> evaluate_node(const ir::Node& node,
                                          const std::vector<const Tensor*>& operands,
                                          const InterpreterOptions& options = {});

}  // namespace llmc::reference

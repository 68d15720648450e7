#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/onnx/model.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/result.h"

namespace llmc::evaluate {

/// Runs the imported graph of a decoder in the interpreter like a session: keeps the returned
/// caches and passes them to the next call.
class ReferenceRun {
 public:
  /// kUnsupported if the graph has inputs or outputs that decoders do not have.
  static Result<ReferenceRun> create(const ir::Graph& graph, std::int64_t vocabulary);

  /// Runs `tokens` after all previous ones; returns the logits after the last one.
  Result<std::vector<float>> run(std::span<const std::int32_t> tokens);

 private:
  enum class InputKind : std::uint8_t { kTokens, kMask, kPositions, kPast };
  explicit ReferenceRun(ir::Graph graph) : interpreter_(std::move(graph)) {}

  reference::Interpreter interpreter_;
  std::vector<InputKind> inputs_;
  std::vector<reference::Tensor> caches_;  // in the order of the graph's past inputs
  std::int64_t position_ = 0, vocabulary_ = 0;
};

}  // namespace llmc::evaluate

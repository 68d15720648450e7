#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/exec/session.h"
#include "compiler/onnx/model.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/result.h"

namespace llmc::evaluate {

/// Runs the imported graph of a decoder in the interpreter, like a session: keeps the caches that
/// each call returns and passes them to the next call.
class ReferenceRun {
 public:
  /// Prepares a run. Fails with kUnsupported if the graph's inputs and outputs are not those of a
  /// decoder.
  static Result<ReferenceRun> create(const ir::Module& module, std::int64_t vocabulary);

  /// Encoder-decoder: runs the encoder. Must precede run().
  Status encode(const exec::EncoderInput& source);

  /// Runs `tokens` after all previous tokens. Returns the logits after the last token.
  Result<std::vector<float>> run(std::span<const std::int32_t> tokens);

 private:
  /// Like run(), in one call of the graph.
  Result<std::vector<float>> run_at_once(std::span<const std::int32_t> tokens);

  explicit ReferenceRun(ir::Graph graph) : interpreter_(std::move(graph)) {}

  reference::Interpreter interpreter_;
  std::optional<reference::Interpreter> encoder_;
  std::vector<reference::Tensor> sources_;  // in the order of the encoder's outputs
  /// Past keys and values, and recurrent states, in the order of the graph's inputs.
  std::vector<reference::Tensor> caches_;
  bool recurrent_ = false;  // the graph is run for one token at a time
  std::int64_t position_ = 0, vocabulary_ = 0, source_rows_ = 0;
};

}  // namespace llmc::evaluate

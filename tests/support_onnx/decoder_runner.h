#pragma once

#include <cstdint>
#include <vector>

#include "compiler/onnx/model.h"
#include "compiler/reference/interpreter.h"

namespace llmc::testing {

/// Runs an imported decoder through the interpreter, step by step, keeping the caches.
class DecoderRunner {
 public:
  explicit DecoderRunner(const importer::ImportedModel& model);
  /// Makes positions on different axes differ. They are equal otherwise, as for text.
  void spread_positions() { spread_ = true; }

  /// Appends `ids` to the previous ones; returns the last row of the logits.
  Result<std::vector<float>> feed(const std::vector<std::int64_t>& ids);
  /// Feeds `prompt`, then `count` times the id with the largest logit; those ids.
  Result<std::vector<std::int64_t>> greedy(const std::vector<std::int64_t>& prompt,
                                           std::int64_t count);

 private:
  reference::Tensor input(const ir::Value& value, const std::vector<std::int64_t>& ids) const;

  reference::Interpreter interpreter_;
  std::vector<reference::Tensor> caches_;
  std::int64_t past_ = 0;
  bool spread_ = false;
};

std::int64_t argmax(const std::vector<float>& values);

/// Largest |a - b| / (|b| + 1).
float largest_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace llmc::testing

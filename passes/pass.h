#pragma once

#include <cstdint>
#include <functional>

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"
#include "passes/quant_scheme.h"

/// Passes convert an imported graph to a graph whose nodes are the stages of a plan. Each pass is a
/// pure function from a graph to a graph (docs/passes.md).
///
/// A pass leaves nodes unchanged if they do not match its pattern exactly. A fused node computes
/// the same values as the nodes that it replaces, except for rounding. Tests evaluate both with the
/// interpreter.
namespace llmc::passes {

/// Compilation options for passes.
struct PassOptions {
  /// Value of `--quant`, which determines the policy of assign_weight_formats. With kUnset, formats
  /// stay unset.
  QuantScheme weights;
  /// Whether weights with integer codes are rounded to their formats (`--requantize`).
  bool requantize = false;
  /// Maximum number of elements of a folded constant. It is small enough that weights are not
  /// folded.
  std::int64_t fold_limit_elements = 1 << 16;
  /// Context of the decoder in tokens. Tables by position have this length.
  std::int64_t context = 2048;
};

struct WeightDecision;

struct PassContext {
  PassOptions options;
  /// Called by assign_weight_formats with its decision about each matrix; may be empty.
  std::function<void(const WeightDecision&)> on_weight = {};
};

/// A pass. Fails with kInternal if the graph is invalid, or with another error if an option cannot
/// be applied.
using PassFunction = Result<ir::Graph> (*)(ir::Graph, const PassContext&);

}  // namespace llmc::passes

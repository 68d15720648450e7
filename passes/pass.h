#pragma once

#include <cstdint>
#include <functional>

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

/// Passes lower an imported graph to one whose nodes are the stages of a decoder. Each is a pure
/// function from a graph to a graph (docs/passes.md).
///
/// A pattern that does not match exactly is unchanged. A fused node computes the same as the nodes
/// it replaces except for rounding; tests evaluate both with the interpreter.
namespace llmc::passes {

/// Options of a compilation that passes read.
struct PassOptions {
  /// `--quant`: what assign_weight_formats makes its policy of. kUnset leaves formats unset.
  ir::WeightFormat weights = ir::WeightFormat::kUnset;
  /// Maximum number of elements of a folded constant; weights are not folded.
  std::int64_t fold_limit_elements = 1 << 16;
};

struct WeightDecision;

struct PassContext {
  PassOptions options;
  /// Whether the graph is a decoder: its input `input_ids` is the token ids, `position_ids` their
  /// positions, `attention_mask` its mask and `past.0`, `past.1`, … its cache. Inputs of a plain
  /// graph have no such meaning, whatever their names.
  bool is_decoder = true;
  /// Called for each matrix that assign_weight_formats looks at; may be empty.
  std::function<void(const WeightDecision&)> on_weight = {};
};

/// A pass. Fails for invalid graphs (kInternal) and for options that cannot be applied.
using PassFunction = Result<ir::Graph> (*)(ir::Graph, const PassContext&);

}  // namespace llmc::passes

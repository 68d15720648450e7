#pragma once

#include <cstdint>
#include <functional>

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

/// Passes turn the graph an importer delivers into one whose nodes are the stages of a decoder, one
/// pure function each: a graph in, a graph out, nothing else touched (docs/passes.md).
///
/// A pattern that does not match exactly stays as it was. A fused node may round differently from
/// the nodes it stands for, and nothing else; tests evaluate both sides with the interpreter.
namespace llmc::passes {

/// What the user decides about a compilation, as far as passes care.
struct PassOptions {
  /// `--quant`: what assign_weight_formats makes its policy of. kUnset leaves formats unset.
  ir::WeightFormat weights = ir::WeightFormat::kUnset;
  /// Results of constant folding above this many elements are not made: weights stay in their file.
  std::int64_t fold_limit_elements = 1 << 16;
};

struct WeightDecision;

struct PassContext {
  PassOptions options;
  /// Called for each matrix that assign_weight_formats looks at; may be empty.
  std::function<void(const WeightDecision&)> on_weight = {};
};

/// A pass. Errors are broken graphs (kInternal) or choices that cannot be carried out.
using PassFunction = Result<ir::Graph> (*)(ir::Graph, const PassContext&);

}  // namespace llmc::passes

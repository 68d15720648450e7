#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

/// The text form of a graph, for tests, dumps and llmc-opt:
///
///   graph @name(%x: f32[1, seq, 64], %past: f32[2, 1, past, 2, 16]) {
///     %w = constant f32[64] random(7, 0.5)     // or {1, 2, 3}, splat(1), mapped "file:tensor", …
///     %n = rms_norm %x, %w {epsilon = 1e-06} : f32[1, seq, 64] @"block_0.onnx" "/layer/n1/Mul_1"
///     return %n
///   }
///
/// `_` is an absent operand. Values without a name are printed as numbers. Names that are not bare
/// names (quote.h) are quoted and escaped. `print(parse(print(g)))` equals `print(g)`.
/// docs/ir-text.md has the grammar.
namespace llmc::ir {

std::string print(const Graph& graph);
/// Returns one node in text form, without indentation or newline.
std::string print(const Graph& graph, const Node& node);

struct ParseOptions {
  /// Returns the data of `mapped "name"`, or nullptr if there is none. If this function is not set,
  /// such constants are errors.
  std::function<ConstantPtr(ElementType, const std::vector<std::int64_t>&, const std::string&)>
      resolve;
  /// Whether to infer types, to fill in omitted types and reject wrong ones. If false, the text
  /// must contain every type except those of constants. The type of a Parameter must always be
  /// given. Tests that need an invalid graph use this.
  bool infer_types = true;
  /// File name used in errors.
  std::string file;
};

/// Parses a graph in text form. The text may be untrusted. Fails with kBadInput; errors contain
/// line and column. The result is not verified (ir/verify.h).
Result<Graph> parse(std::string_view text, const ParseOptions& options = {});

}  // namespace llmc::ir

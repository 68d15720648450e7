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
/// An absent operand is `_`. Values without a name are printed as numbers. Names that are not plain
/// words are quoted and escaped. `print(parse(print(g)))` equals `print(g)`. The grammar is in
/// docs/ir-text.md.
namespace llmc::ir {

std::string print(const Graph& graph);
/// Returns one node in text form, without indentation and newline.
std::string print(const Graph& graph, const Node& node);

struct ParseOptions {
  /// Returns the data of `mapped "name"`; without this function such constants are an error. May
  /// return nullptr.
  std::function<ConstantPtr(ElementType, const std::vector<std::int64_t>&, const std::string&)>
      resolve;
  /// Infer the types: fill in omitted ones and reject wrong ones. Without it every type must be
  /// given; for tests that need an invalid graph.
  bool infer_types = true;
  /// Name of the text in errors.
  std::string file;
};

/// Errors contain line and column. Malicious text can cause nothing but an error.
Result<Graph> parse(std::string_view text, const ParseOptions& options = {});

}  // namespace llmc::ir

#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/onnx/bind/find_caches.h"
#include "compiler/onnx/bind/row_evaluation.h"

namespace llmc::importer {

/// Values of a graph of one token per call, in which the batch dim counts the tokens, and the
/// values of a decoder that replace them.
struct TokenRows {
  const ir::Graph& graph;                      // every row has its own caches
  std::map<ir::ValueId, ir::ValueId> inputs;   // inputs of `graph` with a row per token
  std::map<ir::ValueId, ir::ValueId> sources;  // keys, values of a source: f32[1, heads, source, D]
  std::map<std::string, ir::ValueId> presents;  // outputs of `graph`: caches with the row's token
  std::map<std::string, ir::ValueId> pasts;     // f32[1, kv_heads, past, D], by input name
  ir::ValueId ids;                              // i64[seq]
  ir::ValueId mask;                             // f32[1, 1, seq, past + seq], additive
  KnownInputs known;                            // inputs of `graph`
};

/// Copies the nodes of `rows.graph` that compute `wanted` and the presents to `builder`. In the
/// copy, the rows are tokens of one sequence: attention reads one cache, to which the keys and
/// values of all rows are appended, and one source, and uses the decoder's mask with the graph's
/// bias by distance. Integers computed from tensor sizes are recomputed from the decoder's
/// sizes, and the past length is replaced by each token's position. Returns the values of `wanted`,
/// followed by keys and values of each layer of `found`, f32[1, kv_heads, past + seq, D].
///
/// Fails with kUnsupported
///  - if attention has another form than products of heads-first operands with an additive mask,
///  - if a term of the scores is not a bias by distance (row_evaluation.h), or
///  - if the number of past tokens is used for anything else.
Result<std::vector<ir::ValueId>> append_token_rows(ir::Builder& builder, const Part& part,
                                                   const TokenRows& rows, const FoundCaches& found,
                                                   const std::vector<ir::ValueId>& wanted);

}  // namespace llmc::importer

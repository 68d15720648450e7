#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/onnx/bind/find_caches.h"
#include "compiler/onnx/bind/open_mask.h"

namespace llmc::importer {

/// Values of a graph of one token per call in which the batch dim counts the tokens, and what they
/// become in a decoder.
struct TokenRows {
  const ir::Graph& graph;                       // every row has its own caches
  std::map<ir::ValueId, ir::ValueId> inputs;    // inputs of `graph` except the caches, by value
  std::map<std::string, ir::ValueId> caches;    // keys and values in `graph`, by name
  std::map<std::string, ir::ValueId> presents;  // with the token of the row, by name
  std::map<std::string, ir::ValueId> pasts;     // f32[1, kv_heads, past, D], by name of a cache
  ir::ValueId mask;                             // f32[1, 1, seq, past + seq], additive
  KnownInputs known;                            // of `graph`
};

/// Copies the nodes of `rows.graph` that compute `wanted` and the presents to `builder`. In the
/// copy, the rows are tokens of one sequence: attention reads one cache, to which the keys and
/// values of all rows are appended, and uses the decoder's mask. Returns the values of `wanted`,
/// followed by keys and values of each layer of `found`, f32[1, kv_heads, past + seq, D].
/// Fails with kUnsupported if attention has another form than products of heads-first operands with
/// a mask that is added, or if its mask is not known to show all keys (open_mask.h).
Result<std::vector<ir::ValueId>> append_token_rows(ir::Builder& builder, const Part& part,
                                                   const TokenRows& rows, const FoundCaches& found,
                                                   const std::vector<ir::ValueId>& wanted);

}  // namespace llmc::importer

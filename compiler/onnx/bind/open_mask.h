#pragma once

#include <map>

#include "compiler/ir/graph.h"

namespace llmc::importer {

/// Inputs of a graph of one token per call that are known for each number of past tokens.
struct KnownInputs {
  ir::ValueId positions;  // the position of the token, which is the number of past tokens
  ir::ValueId ones;       // the padding mask of all keys
};

/// Returns whether a value that a graph adds to the scores of one token is 0 for all keys: there is
/// no window, no bias, and no key is masked. The value is evaluated for several numbers of past
/// tokens, up to more than the windows of known models; false if that is not possible.
bool is_open_mask(const ir::Graph& graph, const KnownInputs& inputs, ir::ValueId mask);

}  // namespace llmc::importer

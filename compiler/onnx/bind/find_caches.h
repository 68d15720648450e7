#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/onnx/bind/part.h"

namespace llmc::importer {

/// One layer's cache: the inputs that hold its keys and values, and the outputs that hold them with
/// the new tokens appended. If one tensor [2, …] holds both, key and value have the same name.
struct LayerCache {
  std::string key, value;                  // inputs
  std::string key_present, value_present;  // outputs
};

struct FoundCaches {
  CacheShape shape;
  bool joined = false;             // keys and values in one tensor [2, batch, …]
  std::int64_t fixed_tokens = 0;   // number that the graph always appends; 0: number of its tokens
  std::vector<LayerCache> layers;  // in the order in which the graph attends
};

/// Finds the inputs that are caches by what the graph does with them, not by their names: a Concat
/// extends the input along one axis, and the result is an output. Values are distinguished from
/// keys by the product that reads them (values are multiplied by a softmax), else by name or order.
/// Heads and width are those of the appended tokens, which follow from the weights.
///
/// `graph`: converted with each possible cache as a graph input whose dims are symbols. `inputs`:
/// these, by the file's names, in its order. `outputs`: all outputs of the file. nullopt if no
/// input is a cache. kBadInput if caches do not form layers (a key without a value), kUnsupported
/// if their shapes differ.
Result<std::optional<FoundCaches>> find_caches(
    const ir::Graph& graph, const Part& part,
    const std::vector<std::pair<std::string, ir::ValueId>>& inputs,
    const std::map<std::string, ir::ValueId>& outputs);

}  // namespace llmc::importer

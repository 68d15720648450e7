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
  std::string key, value;                   // inputs
  std::string key_present, value_present;   // outputs
  std::int64_t key_dim = 0, value_dim = 0;  // elements of a head
};

struct FoundCaches {
  CacheShape shape;     // head_dim is the maximum of all layers
  bool joined = false;  // keys and values in one tensor [2, batch, …]
  /// Number of tokens that the graph appends in each call; 0: symbolic.
  std::int64_t fixed_tokens = 0;
  std::vector<LayerCache> layers;  // in execution order
};

/// Finds the inputs that are caches by their use in the graph, not by their names: a Concat extends
/// the input along one axis, and its result is an output. Values are distinguished from keys by the
/// product that reads them (values are multiplied by a softmax), otherwise by name or order. The
/// number of heads and the head size are those of the appended tokens, which follow from the
/// weights.
///
/// `graph` is the file's graph converted with each possible cache as a graph input. `inputs` are
/// these inputs with their names in the file, in the order of the file. `outputs` are all outputs
/// of the file. Returns nullopt if no input is a cache. Fails with kBadInput if the heads of a
/// cache are not known, or if a tensor with both does not hold keys first. Fails with kUnsupported
/// if the numbers of key and value caches differ, or their numbers of heads, or their layouts.
Result<std::optional<FoundCaches>> find_caches(
    const ir::Graph& graph, const Part& part,
    const std::vector<std::pair<std::string, ir::ValueId>>& inputs,
    const std::map<std::string, ir::ValueId>& outputs);

}  // namespace llmc::importer

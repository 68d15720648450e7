#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/onnx/block.h"

namespace llmc::importer {

/// One layer's cache: the inputs that hold its keys and values and the outputs that hold them with
/// the new tokens appended. With one tensor [2, …] for both, key and value name the same.
struct LayerCache {
  std::string key, value;                  // inputs
  std::string key_present, value_present;  // outputs
};

struct FoundCaches {
  CacheShape shape;
  bool joined = false;             // keys and values in one tensor [2, batch, …]
  std::int64_t fixed_tokens = 0;   // the graph appends so many, whatever it is given; 0: as many
  std::vector<LayerCache> layers;  // in the order in which the graph attends
};

/// Which inputs of a graph are caches, by what the graph does with them, not by their names: an
/// input that a Concat extends along one axis, and whose extension is an output again. Keys and
/// values are told apart by the product they end in (values meet a softmax); heads and width come
/// from the tokens that are appended, hence from the weights.
///
/// `graph` is the imported graph with each possible cache as a graph input with symbols for dims:
/// `inputs`, the file's names in its order. `outputs` are all outputs of the file. Where no product
/// tells keys from values their names do, or their order.
/// Inputs that are not used that way are left out; nullopt when none is. kBadInput where caches do
/// not make a whole (a key without its value, different shapes).
Result<std::optional<FoundCaches>> find_caches(
    const ir::Graph& graph, const Part& part,
    const std::vector<std::pair<std::string, ir::ValueId>>& inputs,
    const std::map<std::string, ir::ValueId>& outputs);

}  // namespace llmc::importer

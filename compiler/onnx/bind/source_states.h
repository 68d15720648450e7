#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/onnx/bind/part.h"

/// Keys and values of the source in an encoder-decoder's files.
namespace llmc::importer {

/// Names of inputs or outputs with keys and values of the source.
struct SourceNames {
  std::vector<std::array<std::string, 2>> layers;  // key and value
  std::vector<std::int64_t> numbers;  // layer numbers, ascending; empty if the names have none
};

/// Pairs the names by the layer number and "key" or "value" in them, as in
/// past_key_values.0.encoder.key, and ignores names without these. If no name has them, pairs all
/// names in the given order, keys first. Fails with kBadInput if a layer has no key or no value, or
/// several, or if there are no layer numbers and the number of names is odd.
Result<SourceNames> pair_source_names(const Part& part, const std::vector<std::string>& names);

/// Keys and values of the source in each layer.
struct SourceStates {
  std::vector<std::array<std::string, 2>> layers;  // names of inputs
  std::int64_t heads = 0, dim = 0;
};

/// Returns the inputs with the state of a source. Fails with kUnsupported if their shapes are not
/// [batch, heads, source, dim] with the same fixed heads and dim.
Result<SourceStates> source_states(const Part& part);

/// Returns the inputs of a decoder with a past that hold keys and values of the source.
Result<SourceNames> source_state_inputs(const Part& part);

}  // namespace llmc::importer

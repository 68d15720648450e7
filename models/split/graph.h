#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/split/config.h"
#include "models/split/onnx_builder.h"

namespace llmc::models {

/// The role of a weight; matrices are [inputs, outputs], as operands of MatMul.
enum class Role : std::uint8_t {
  kNorm1,
  kQ,
  kK,
  kV,
  kQBias,
  kKBias,
  kVBias,
  kO,
  kNorm2,
  kGate,
  kUp,
  kDown,
  kNorm,          // after the last block
  kHead,          // [hidden, vocabulary]
  kRouter,        // [hidden, experts]
  kExpertGateUp,  // [experts, 2 * intermediate, hidden]
  kExpertDown,    // [experts, hidden, intermediate]
  kQNorm,         // over all heads
  kKNorm,
};

struct WeightId {
  Role role = Role::kNorm1;
  std::int64_t layer = 0;  // 0 for weights outside the layers
};

/// Source of a model's weights.
class Weights {
 public:
  virtual ~Weights() = default;
  /// Adds the tensor `name` with these dims and its values to the graph.
  virtual void add(OnnxBuilder& b, const std::string& name, const std::vector<std::int64_t>& dims,
                   WeightId id) const = 0;
};

/// Builds block `index` with inputs and outputs named by the convention. The last block also
/// contains the final norm and the selection of the last row, unless the head contains them.
void build_block(const SplitConfig& config, const Weights& weights, std::int64_t index,
                 OnnxBuilder& b);
/// Builds lm.onnx.
void build_head(const SplitConfig& config, const Weights& weights, OnnxBuilder& b);

}  // namespace llmc::models

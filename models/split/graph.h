#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/split/config.h"
#include "models/split/onnx_builder.h"

namespace llmc::models {

/// What a weight is for; matrices are [inputs, outputs], as MatMul takes them.
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
  kNorm,  // behind the last block
  kHead,  // [hidden, vocabulary]
};

struct WeightId {
  Role role = Role::kNorm1;
  std::int64_t layer = 0;  // 0 for what belongs to none
};

/// Where the weights of a model come from.
class Weights {
 public:
  virtual ~Weights() = default;
  /// Adds the tensor `name` of these dims to the graph, with its values.
  virtual void add(OnnxBuilder& b, const std::string& name, const std::vector<std::int64_t>& dims,
                   WeightId id) const = 0;
};

/// Fills `b` with one block, with its inputs and outputs by the convention's names. The last block
/// ends with the final norm and the last row unless the head has them.
void build_block(const SplitConfig& config, const Weights& weights, std::int64_t index,
                 OnnxBuilder& b);
/// The same with lm.onnx.
void build_head(const SplitConfig& config, const Weights& weights, OnnxBuilder& b);

}  // namespace llmc::models

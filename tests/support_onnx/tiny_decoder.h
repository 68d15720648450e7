#pragma once

#include <ostream>
#include <string>

#include "tests/support_onnx/norm_form.h"
#include "tests/support_onnx/rope_form.h"

namespace llmc::testing {

/// How a small decoder in one file is written: what exporters do differently. Two layers, hidden
/// 16, 4 heads of 4, 2 kv heads, vocabulary 24, weights from a fixed sequence.
struct DecoderForm {
  enum class Cache { kHeadsFirst, kSequenceFirst, kTurned, kJoined, kStacked };
  enum class Mask { kCompared, kWindow, kTriangle, kGivenFloats, kGivenBools, kGroupQuery };
  enum class Positions { kInput, kCounted, kSummed, kCachePosition };
  using Rope = RopeForm;
  enum class Mlp { kSilu, kGeluTanh, kFused, kReluSquared };
  /// What the branches of a layer are multiplied with: a number that differs between the layers.
  enum class LayerScale { kNone, kScalar, kOneElement, kConstantNode };

  std::string name;
  std::int64_t opset = 18;
  int float_type = onnx::TensorProto::FLOAT;
  Cache cache = Cache::kHeadsFirst;
  Mask mask = Mask::kCompared;
  Positions positions = Positions::kInput;
  Rope rope = Rope::kHalves;
  Mlp mlp = Mlp::kSilu;
  NormForm norm = NormForm::kPlain;
  LayerScale layer_scale = LayerScale::kNone;
  bool packed = false;       // one matrix for q, k and v
  bool head_norms = false;   // RMS norm of each head of q and k
  bool layer_norms = false;  // in place of RMS norms, written out
  bool softcap = false;      // of scores and logits
  bool post_norms = false;   // after attention and MLP
  bool parallel = false;     // attention and MLP read the same rows
  bool plain_names = false;  // "t0", "t1", … for caches in and out
  bool functions = false;    // norms are calls of a local function
  bool merged = false;       // everything in the then-branch of an If on use_cache_branch
  bool grouped = false;      // kv heads are repeated for their group by broadcast, not by Expand

  friend void PrintTo(const DecoderForm& c, std::ostream* out) { *out << c.name; }
};

OnnxBuilder tiny_decoder(const DecoderForm& form);

/// Moves all nodes into the then-branch of an If on the input `use_cache_branch`; the else-branch
/// makes the same outputs with an unknown operator.
void put_into_branch(OnnxBuilder& b, const std::vector<std::string>& outputs);

}  // namespace llmc::testing

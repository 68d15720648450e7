#pragma once

#include "tests/support_onnx/onnx_builder.h"

namespace llmc::testing {

/// Layers of a tiny decoder that takes one token per call.
struct RecurrentForm {
  bool convolution = true;  // a window of 3 tokens for each of 16 channels
  bool ssm = true;          // f32[4, 4, 4], which decays by factors of the token
  bool attention = false;   // 2 heads over 2, with a cache
  bool shifts_keys = true;  // attention adds the keys of the last two tokens, which are states
  enum class Mask : std::uint8_t { kNone, kOpen, kWindow, kBias } mask = Mask::kNone;
  int more_layers = 0;  // additions of a row before the attention
};

/// Returns a decoder with token ids [batch, 1], states past_NAME and present_NAME, and a vocabulary
/// of 24.
OnnxBuilder tiny_recurrent(const RecurrentForm& form);

}  // namespace llmc::testing

#pragma once

#include <cstdint>
#include <filesystem>

#include "tests/support_onnx/tiny_decoder.h"

namespace llmc::testing {

/// A small model of images and text as Optimum and transformers.js write them, in three files.
struct VisionForm {
  DecoderForm decoder = {.name = "vision"};
  bool scaled = false;  // the embedding multiplies its rows
};

/// Writes model.onnx, tiny_decoder(form.decoder), and the same decoder without its table in
/// `folder`/vision: decoder_model_merged.onnx (inputs_embeds -> logits), embed_tokens.onnx
/// (input_ids -> inputs_embeds) and vision_encoder.onnx (pixel_values f32[1, 3, 8, 8] ->
/// image_features f32[1, 4, 16]: patches, attention, a projector).
void write_tiny_vision(const std::filesystem::path& folder, const VisionForm& form = {});

}  // namespace llmc::testing

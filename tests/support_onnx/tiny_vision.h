#pragma once

#include <cstdint>
#include <filesystem>

#include "tests/support_onnx/tiny_decoder.h"

namespace llmc::testing {

/// A small model of images and text as Optimum and transformers.js write them, in three files.
struct VisionForm {
  DecoderForm decoder = {.name = "vision"};
  bool scaled = false;   // the embedding multiplies its rows by a number
  bool shifted = false;  // the embedding adds 1 to its rows
  /// The image encoder also reads pixel_attention_mask bool[batch, 8, 8], by which it multiplies
  /// the pixels.
  bool masked = false;
  std::int64_t image_width = 16;  // elements of a row of image_features
};

/// Writes model.onnx, tiny_decoder(form.decoder), and the same decoder without its table in
/// `folder`/vision: decoder_model_merged.onnx (inputs_embeds -> logits), embed_tokens.onnx
/// (input_ids -> inputs_embeds) and vision_encoder.onnx (pixel_values f32[batch_size, 3, 8, 8] ->
/// image_features f32[batch_size, 4, 16]: patches, attention, a projector).
void write_tiny_vision(const std::filesystem::path& folder, const VisionForm& form = {});

}  // namespace llmc::testing

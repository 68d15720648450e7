#pragma once

#include <cstdint>
#include <filesystem>

namespace llmc::testing {

/// A small encoder-decoder as Optimum writes BART: layer norms before each branch, learned
/// positions in a table with an offset of 2, and one logit bias. Two layers each, hidden 16, 4
/// heads of 4, vocabulary 24, weights from a fixed sequence.
struct EncoderDecoderForm {
  std::int64_t opset = 18;
};

/// Writes encoder_model.onnx, decoder_model.onnx and decoder_with_past_model.onnx.
void write_tiny_encoder_decoder(const std::filesystem::path& folder,
                                const EncoderDecoderForm& form = {});

}  // namespace llmc::testing

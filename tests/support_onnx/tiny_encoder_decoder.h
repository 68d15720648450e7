#pragma once

#include <cstdint>
#include <filesystem>

namespace llmc::testing {

/// What the encoder reads: token ids, samples of sound of any number from 27 on, or a spectrogram
/// of 8 bands and 30 frames. Convolutions with strides turn the latter two into rows, and there is
/// no mask of the source.
enum class EncoderSource : std::uint8_t { kTokens, kSamples, kSpectrogram };

/// A small encoder-decoder as Optimum writes BART: layer norms before each branch, learned
/// positions in a table with an offset of 2, and one logit bias. Two layers each, hidden 16, 4
/// heads of 4, vocabulary 24, weights from a fixed sequence.
struct EncoderDecoderForm {
  std::int64_t opset = 18;
  EncoderSource source = EncoderSource::kTokens;
  bool relative_bias = false;  // as T5: a table by distance in place of the decoder's positions
  bool merged = false;         // both decoders as the branches of one file
  bool one_cache = false;      // the decoder's second layer attends to the cache of the first one
  bool reversed = false;       // the decoder without a past returns its presents in reverse order
  bool one_token = false;      // the decoder with a past takes one token per call
  bool capped = false;         // as T5Gemma: a softcap of all scores
  /// The batch size of the source's keys and values is that of the decoder's tokens, as in UMT5.
  bool batch_of_tokens = false;
  bool twice = false;  // the second layer attends to the source twice: invalid
};

/// Writes encoder_model.onnx, and decoder_model.onnx and decoder_with_past_model.onnx, or
/// decoder_model_merged.onnx.
void write_tiny_encoder_decoder(const std::filesystem::path& folder,
                                const EncoderDecoderForm& form = {});

}  // namespace llmc::testing

#include "tools/llmc/source_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/sound_config.h"
#include "compiler/support/check.h"
#include "compiler/support/file.h"
#include "runtime/hosted/audio/log_mel.h"
#include "runtime/hosted/audio/resample.h"
#include "runtime/hosted/audio/wav.h"
#include "tools/llmc/numbers.h"
#include "tools/llmc/options.h"

namespace llmc::cli {

void add_source_options(CLI::App& app, SourceOptions& options) {
  auto* text =
      app.add_option("--source", options.texts, "Text for the encoder of an encoder-decoder")
          ->type_name("TEXT")
          ->expected(1);
  app.add_option("--source-ids", options.ids, "Token ids for the encoder, such as 1,2,3")
      ->type_name("IDS")
      ->expected(1)
      ->excludes(text);
}

void add_feature_options(CLI::App& app, SourceOptions& options) {
  auto* text = app.get_option("--source");
  auto* ids = app.get_option("--source-ids");
  auto* audio =
      app.add_option("--audio", options.audio, "WAV file for the encoder of a speech model")
          ->type_name("FILE")
          ->excludes(text)
          ->excludes(ids);
  auto* features = app.add_option("--source-features", options.features,
                                  "Features for an encoder of sound or images: a file of 32-bit "
                                  "floats, little-endian, in the order of its input")
                       ->type_name("FILE")
                       ->excludes(text)
                       ->excludes(ids)
                       ->excludes(audio);
  for (CLI::Option* const option : {text, ids, audio, features}) {
    option->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args(false);
    option->description(option->get_description() + "; may be repeated for a batch");
  }
}

namespace {

/// Maximum size in bytes of a file of sound or features.
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;

/// Scales samples to mean 0 and variance 1, as Wav2Vec2FeatureExtractor does.
void normalize(std::vector<float>& samples) {
  double sum = 0, squares = 0;
  for (const float x : samples) sum += x;
  const double mean = sum / static_cast<double>(samples.size());
  for (const float x : samples) squares += (x - mean) * (x - mean);
  const double scale = 1 / std::sqrt(squares / static_cast<double>(samples.size()) + 1e-7);
  for (float& x : samples) x = static_cast<float>((x - mean) * scale);
}

/// Returns the features of a WAV file: its samples, or Whisper's spectrogram.
Result<std::vector<float>> sound_features(const std::string& file, const std::string& path,
                                          const exec::NativeModel& native) {
  LLMC_TRY(const plan::SoundFeatures expected, driver::sound_features_of(path));
  const exec::ModelFacts& model = native.model();
  if (model.source_width == 0)
    return usage_error("--audio needs a speech model, and this one has no encoder of sound",
                       "give a text: -p for a decoder, --source for an encoder-decoder");
  const bool spectrogram = model.source_width > 1;
  if (spectrogram && (expected.mels != model.source_width || native.bundle_facts().frames_first))
    return usage_error(
        fmt::format("the encoder's {} features of a frame are not samples or Whisper's {}",
                    model.source_width,
                    expected.mels == 0 ? "spectrogram"
                                       : fmt::format("spectrogram of {} bands", expected.mels)),
        "compute them yourself and give them with --source-features");
  LLMC_TRY(const std::string bytes, read_file(file, kMaxBytes));
  const auto sound = hosted::read_wav(std::as_bytes(std::span(bytes)), file);
  if (!sound)
    return file_failure(ErrorKind::kBadInput, file,
                        printable(sound.failure().message.substr(file.size() + 2)),
                        sound.failure().hint);
  const std::size_t hop = spectrogram ? hosted::kMelHop : 1;
  const double seconds = static_cast<double>(sound->samples.size()) / sound->rate;
  const double most = static_cast<double>(model.source_max * hop) / expected.rate;
  if (seconds > most)  // checked before resampling, which takes memory
    return usage_error(fmt::format("{} is {:.2f} seconds long, and the model reads {:.2f}",
                                   printable(file), seconds, most),
                       "divide the file");
  auto samples = hosted::resample(sound->samples, sound->rate, expected.rate);
  if (expected.normalized) normalize(samples);
  if (!spectrogram) return samples;
  const std::size_t frames =
      std::clamp<std::size_t>((samples.size() + hop - 1) / hop, model.source_min, model.source_max);
  return hosted::log_mel(samples, model.source_width, std::max<std::size_t>(frames, 2));
}

Result<std::vector<float>> read_features(const std::string& file) {
  LLMC_TRY(const std::string bytes, read_file(file, kMaxBytes));
  std::vector<float> features(bytes.size() / sizeof(float));
  if (features.empty() || bytes.size() % sizeof(float) != 0)
    return file_failure(ErrorKind::kBadInput, file, "not a file of 32-bit floats",
                        "write the features without a header, 4 bytes each");
  std::memcpy(features.data(), bytes.data(), bytes.size());
  const auto bad = std::ranges::find_if(features, [](float x) { return !std::isfinite(x); });
  if (bad != features.end())
    return file_failure(ErrorKind::kBadInput, file,
                        fmt::format("feature {} is not a finite number", bad - features.begin()),
                        "write the features as 32-bit floats, little-endian");
  return features;
}

}  // namespace

Result<std::vector<exec::EncoderInput>> encoder_inputs(const SourceOptions& options,
                                                       const hosted::Tokenizer* tokenizer,
                                                       const std::string& model,
                                                       const exec::NativeModel* native) {
  std::vector<exec::EncoderInput> inputs;
  LLMC_CHECK(native != nullptr || !options.is_features());
  for (const std::string& file : options.audio) {
    LLMC_TRY(auto features, sound_features(file, model, *native));
    inputs.push_back({.ids = {}, .features = std::move(features)});
  }
  for (const std::string& file : options.features) {
    LLMC_TRY(auto features, read_features(file));
    inputs.push_back({.ids = {}, .features = std::move(features)});
  }
  for (const std::string& list : options.ids) {
    LLMC_TRY(auto ids, parse_numbers(list, "--source-ids"));
    inputs.push_back({.ids = std::move(ids), .features = {}});
  }
  if (tokenizer == nullptr && !options.texts.empty())
    return usage_error("--source needs a tokenizer", "give token ids with --source-ids");
  for (const std::string& text : options.texts) {
    inputs.push_back({.ids = tokenizer->encode(
                          text, {.add_prefix = true, .parse_special = false, .add_suffix = true}),
                      .features = {}});
    if (inputs.back().ids.empty())
      return usage_error("the source is empty", "give a text with --source");
  }
  return inputs;
}

Result<exec::EncoderInput> encoder_input(const SourceOptions& options,
                                         const hosted::Tokenizer* tokenizer) {
  LLMC_TRY(auto inputs, encoder_inputs(options, tokenizer));
  return inputs.empty() ? exec::EncoderInput() : std::move(inputs.front());
}

}  // namespace llmc::cli

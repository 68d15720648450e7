#include "compiler/driver/sound_config.h"

#include <fmt/format.h>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/model_config.h"
#include "compiler/support/model_folders.h"
#include "runtime/hosted/audio/wav.h"

namespace llmc::driver {

namespace fs = std::filesystem;

Result<plan::SoundFeatures> read_sound_features(const fs::path& model) {
  LLMC_TRY(const ModelConfig config,
           read_model_config(model_folders(model), "preprocessor_config.json"));
  plan::SoundFeatures features;
  const auto number = [&](const char* name, std::uint32_t usual,
                          std::uint32_t least = 1) -> Result<std::uint32_t> {
    const nlohmann::json* const value = value_of(config.object, name);
    if (value == nullptr) return usual;
    if (value->is_number_integer() && *value >= least && *value <= hosted::kMaxRate)
      return value->get<std::uint32_t>();
    return bad_model_config(config.file, fmt::format("{} is not a number from {} to {}", name,
                                                     least, hosted::kMaxRate));
  };
  LLMC_TRY(features.rate, number("sampling_rate", features.rate, hosted::kMinRate));
  LLMC_TRY(const std::uint32_t window, number("n_fft", 400));
  LLMC_TRY(const std::uint32_t hop, number("hop_length", 160));
  LLMC_TRY(const std::uint32_t mels, number("feature_size", 80));
  const auto kind = config.object.find("feature_extractor_type");
  const bool whisper = kind == config.object.end() || *kind == "WhisperFeatureExtractor";
  features.mels = whisper && features.rate == 16000 && window == 400 && hop == 160 ? mels : 0;
  const nlohmann::json* const normalized = value_of(config.object, "do_normalize");
  if (normalized == nullptr) return features;
  if (!normalized->is_boolean())
    return bad_model_config(config.file, "do_normalize is not true or false");
  features.normalized = *normalized;
  return features;
}

Result<plan::SoundFeatures> sound_features_of(const fs::path& model) {
  if (!looks_like_bundle(model)) return read_sound_features(model);
  LLMC_TRY(const BundleFacts facts, read_bundle(model));
  return facts.sound;
}

}  // namespace llmc::driver

#pragma once

#include <filesystem>

#include "compiler/plan/plan.h"
#include "compiler/support/result.h"

namespace llmc::driver {

/// Reads how an encoder's features are computed from sound. The values come from
/// preprocessor_config.json in the folder of the model; their defaults are those of Whisper and of
/// plan::SoundFeatures. Fails with kBadInput if a value has the wrong type or range.
Result<plan::SoundFeatures> read_sound_features(const std::filesystem::path& model);
/// Returns the same for a model or a bundle, which records them. Also fails like read_bundle().
Result<plan::SoundFeatures> sound_features_of(const std::filesystem::path& model);

}  // namespace llmc::driver

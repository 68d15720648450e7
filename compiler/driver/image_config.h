#pragma once

#include <filesystem>

#include "compiler/plan/plan.h"
#include "compiler/support/result.h"

namespace llmc::driver {

/// Reads how pixels become the input of a media encoder from preprocessor_config.json, and the id
/// of the image token of prompts from config.json. Fails with kBadInput if a value has the wrong
/// type or range, except for values that concern resizing: these are then unknown
/// (plan::ImageResize::unknown_key).
Result<plan::MediaInput> read_image_pixels(const std::filesystem::path& model);
/// Reads the id of the sound token of prompts from config.json. Fails like read_image_pixels().
Result<plan::MediaInput> read_sound_token(const std::filesystem::path& model);
/// Return the same for a model or a bundle, which records them. Also fail like read_bundle().
Result<plan::MediaInput> sound_token_of(const std::filesystem::path& model);
Result<plan::MediaInput> image_pixels_of(const std::filesystem::path& model);

}  // namespace llmc::driver

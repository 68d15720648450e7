#pragma once

#include <filesystem>

#include "compiler/plan/plan.h"
#include "compiler/support/result.h"

namespace llmc::driver {

/// Reads how pixels become the input of an image encoder, from preprocessor_config.json, and the id
/// of an image in a prompt, from config.json. Fails with kBadInput if a value has the wrong type or
/// range.
Result<plan::ImagePixels> read_image_pixels(const std::filesystem::path& model);
/// Returns the same for a model or a bundle, which records them. Also fails like read_bundle().
Result<plan::ImagePixels> image_pixels_of(const std::filesystem::path& model);

}  // namespace llmc::driver

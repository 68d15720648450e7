#include "compiler/driver/image_config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/model_config.h"
#include "compiler/support/model_folders.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;

Diagnostic not_valid(const ModelConfig& config, const char* name, const char* what) {
  return bad_model_config(config.file, fmt::format("{} is not {}", name, what));
}

Result<bool> flag(const ModelConfig& config, const char* name, bool otherwise) {
  const nlohmann::json* const value = value_of(config.object, name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) return not_valid(config, name, "true or false");
  return value->get<bool>();
}

/// Reads a number for each of the three colors, which are not 0 if `divides` is set.
Status read_colors(const ModelConfig& config, const char* name, bool divides,
                   std::array<double, 3>& colors) {
  const nlohmann::json* const value = value_of(config.object, name);
  if (value == nullptr) return ok_status();
  bool valid = value->is_array() && value->size() == colors.size();
  for (std::size_t i = 0; valid && i < colors.size(); ++i) {
    valid = (*value)[i].is_number();
    if (valid) colors[i] = (*value)[i].get<double>();
    valid = valid && std::isfinite(colors[i]) && !(divides && colors[i] == 0);
  }
  if (!valid)
    return not_valid(config, name, divides ? "three numbers other than 0" : "three numbers");
  return ok_status();
}

}  // namespace

Result<plan::ImagePixels> read_image_pixels(const fs::path& model) {
  const std::vector<fs::path> folders = model_folders(model);
  plan::ImagePixels pixels;
  LLMC_TRY(const ModelConfig config, read_model_config(folders, "config.json"));
  for (const char* const name : {"image_token_index", "image_token_id"}) {
    const nlohmann::json* const id = value_of(config.object, name);
    if (id == nullptr) continue;
    if (!id->is_number_integer() || *id < 0 || *id > std::numeric_limits<std::int32_t>::max())
      return not_valid(config, name, "a token id");
    pixels.token = id->get<std::int32_t>();
    break;
  }
  LLMC_TRY(const ModelConfig processor, read_model_config(folders, "preprocessor_config.json"));
  if (processor.file.empty()) return pixels;
  pixels.known = true;
  LLMC_TRY(const bool rescales, flag(processor, "do_rescale", true));
  LLMC_TRY(const bool normalizes,
           flag(processor, "do_normalize", value_of(processor.object, "image_mean") != nullptr));
  if (const nlohmann::json* const factor = value_of(processor.object, "rescale_factor")) {
    if (!factor->is_number() || !std::isfinite(factor->get<double>()))
      return not_valid(processor, "rescale_factor", "a number");
    pixels.rescale = factor->get<double>();
  }
  if (!rescales) pixels.rescale = 1;
  if (!normalizes) return pixels;
  LLMC_RETURN_IF_ERROR(read_colors(processor, "image_mean", false, pixels.mean));
  LLMC_RETURN_IF_ERROR(read_colors(processor, "image_std", true, pixels.deviation));
  return pixels;
}

Result<plan::ImagePixels> image_pixels_of(const fs::path& model) {
  if (!looks_like_bundle(model)) return read_image_pixels(model);
  LLMC_TRY(const BundleFacts facts, read_bundle(model));
  return facts.image;
}

}  // namespace llmc::driver

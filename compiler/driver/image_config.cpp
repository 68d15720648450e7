#include "compiler/driver/image_config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

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

/// Reads three numbers, one per color channel. If `divides` is set, they must not be 0.
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

constexpr int kMaxSide = plan::ImageResize::kMaxSide;

/// Reads a size in pixels; nullopt if `value` is not a valid size.
std::optional<int> side(const nlohmann::json* value) {
  if (value == nullptr || !value->is_number_integer() || *value < 1 || *value > kMaxSide)
    return std::nullopt;
  return value->get<int>();
}

/// Reads {"height": H, "width": W}; nullopt if `value` is something else.
std::optional<std::pair<int, int>> height_and_width(const nlohmann::json& value) {
  const auto height = side(value_of(value, "height")), width = side(value_of(value, "width"));
  if (!height || !width || value.size() != 2) return std::nullopt;
  return std::pair(*height, *width);
}

/// Steps of image processors other than resizing and cropping the middle, which llmc does not do.
constexpr const char* kOtherSteps[] = {"crop_pct",
                                       "do_align_long_axis",
                                       "do_crop_margin",
                                       "do_flip_channel_order",
                                       "do_image_splitting",
                                       "do_pad",
                                       "do_pan_and_scan",
                                       "do_thumbnail",
                                       "image_grid_pinpoints",
                                       "max_image_size",
                                       "max_pixels",
                                       "merge_size",
                                       "min_size",
                                       "patch_size",
                                       "size_divisor"};

/// Returns whether a step's value is neither missing, null, false nor 0.
bool is_set(const nlohmann::json* value) {
  return value != nullptr && *value != false && *value != 0;
}

/// Returns the meaning of a size that is a single number: true if it is the length of the shortest
/// edge, false if it is both width and height. Returns nullopt if the class of the image processor
/// is unknown.
std::optional<bool> number_is_shortest_edge(const nlohmann::json& processor) {
  for (const char* const name : {"image_processor_type", "feature_extractor_type"}) {
    const nlohmann::json* const type = value_of(processor, name);
    if (type == nullptr || !type->is_string()) continue;
    const auto& text = type->get_ref<const std::string&>();
    if (text.starts_with("CLIP")) return true;
    if (text.starts_with("ViT") || text.starts_with("Siglip")) return false;
  }
  return std::nullopt;
}

/// Reads how an image processor resizes. If llmc does not support a value, the result has only
/// `unknown_key`, the key of that value.
plan::ImageResize read_resize(const nlohmann::json& processor) {
  using Fit = plan::ImageResize::Fit;
  const auto unknown = [](std::string key) {
    plan::ImageResize none;
    none.unknown_key = std::move(key);
    return none;
  };
  plan::ImageResize resize;
  for (const char* const step : kOtherSteps)
    if (is_set(value_of(processor, step))) return unknown(step);
  const nlohmann::json* const size = value_of(processor, "size");
  const nlohmann::json* const enabled = value_of(processor, "do_resize");
  if (size == nullptr || (enabled != nullptr && *enabled != true)) return unknown("do_resize");
  if (const auto number = side(size)) {
    const auto shortest = number_is_shortest_edge(processor);
    if (!shortest) return unknown("size");
    resize.fit = *shortest ? Fit::kShortestEdge : Fit::kExact;
    resize.width = resize.height = *number;
  } else if (const auto both = height_and_width(*size)) {
    resize.fit = Fit::kExact;
    std::tie(resize.height, resize.width) = *both;
  } else {
    const auto edge = side(value_of(*size, "shortest_edge"));
    if (!edge || size->size() != 1) return unknown("size");
    resize.fit = Fit::kShortestEdge;
    resize.width = resize.height = *edge;
  }
  const nlohmann::json* const filter = value_of(processor, "resample");
  if (filter == nullptr || !filter->is_number_integer() || *filter < 0 ||
      *filter >= plan::ImageResize::kFilters)
    return unknown("resample");
  resize.filter = filter->get<int>();
  const nlohmann::json* const crop = value_of(processor, "crop_size");
  const nlohmann::json* const crops = value_of(processor, "do_center_crop");
  if (crops == nullptr ? crop == nullptr : *crops != true) return resize;
  if (crop == nullptr) return unknown("crop_size");
  if (const auto number = side(crop)) {
    resize.crop_width = resize.crop_height = *number;
  } else if (const auto both = height_and_width(*crop)) {
    std::tie(resize.crop_height, resize.crop_width) = *both;
  } else {
    return unknown("crop_size");
  }
  return resize;
}

/// Returns the token id that one of the names has in config.json; -1 if there is none.
Result<std::int32_t> token_of(const std::vector<fs::path>& folders,
                              std::initializer_list<const char*> names) {
  LLMC_TRY(const ModelConfig config, read_model_config(folders, "config.json"));
  for (const char* const name : names) {
    const nlohmann::json* const id = value_of(config.object, name);
    if (id == nullptr) continue;
    if (!id->is_number_integer() || *id < 0 || *id > std::numeric_limits<std::int32_t>::max())
      return not_valid(config, name, "a token id");
    return id->get<std::int32_t>();
  }
  return -1;
}

}  // namespace

Result<plan::MediaInput> read_sound_token(const fs::path& model) {
  plan::MediaInput sound;
  sound.kind = plan::MediaInput::Kind::kSound;
  LLMC_TRY(sound.token, token_of(model_folders(model), {"audio_token_index", "audio_token_id"}));
  return sound;
}

Result<plan::MediaInput> read_image_pixels(const fs::path& model) {
  const std::vector<fs::path> folders = model_folders(model);
  plan::MediaInput pixels;
  LLMC_TRY(pixels.token, token_of(folders, {"image_token_index", "image_token_id"}));
  LLMC_TRY(const ModelConfig processor, read_model_config(folders, "preprocessor_config.json"));
  if (processor.file.empty()) return pixels;
  pixels.known = true;
  pixels.resize = read_resize(processor.object);
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

Result<plan::MediaInput> sound_token_of(const fs::path& model) {
  if (!looks_like_bundle(model)) return read_sound_token(model);
  LLMC_TRY(const BundleFacts facts, read_bundle(model));
  return facts.media;
}

Result<plan::MediaInput> image_pixels_of(const fs::path& model) {
  if (!looks_like_bundle(model)) return read_image_pixels(model);
  LLMC_TRY(const BundleFacts facts, read_bundle(model));
  return facts.media;
}

}  // namespace llmc::driver

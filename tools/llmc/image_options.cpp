#include "tools/llmc/image_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "compiler/driver/image_config.h"
#include "compiler/driver/sound_config.h"
#include "compiler/support/counted.h"
#include "compiler/support/file.h"
#include "compiler/support/parse_number.h"
#include "runtime/hosted/audio/log_mel.h"
#include "runtime/hosted/audio/resample.h"
#include "runtime/hosted/audio/wav.h"
#include "runtime/hosted/image/resample.h"
#include "tools/llmc/options.h"

namespace llmc::cli {

void add_image_options(CLI::App& app, ImageOptions& images) {
  app.add_option("--image", images.files,
                 "Image in the prompt, in place of its image token: .npy or raw 32-bit floats as "
                 "the image encoder reads them, or .ppm; may be repeated")
      ->type_name("FILE")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(false);
  app.add_option("--image-grid", images.grid,
                 "Grid of the image encoder's output rows, for models with two-dimensional "
                 "positions in images, such as Qwen2-VL (default: a square)")
      ->type_name("LINESxCOLUMNS");
}

namespace {

struct Grid {
  std::size_t lines = 0, columns = 0;
};

/// Parses "LINESxCOLUMNS"; nullopt for other text.
std::optional<Grid> parse_grid(std::string_view text) {
  const auto number = [](std::string_view part) {
    return parse_number<std::size_t>(part).value_or(0);
  };
  constexpr std::size_t kMaxGridSide = 1 << 16;
  const std::size_t by = text.find('x');
  if (by == text.npos) return std::nullopt;
  const Grid grid{number(text.substr(0, by)), number(text.substr(by + 1))};
  const bool valid = grid.lines > 0 && grid.columns > 0 && grid.lines <= kMaxGridSide &&
                     grid.columns <= kMaxGridSide;
  return valid ? std::optional(grid) : std::nullopt;
}

/// Returns the square grid with `count` rows; nullopt if there is none.
std::optional<Grid> square(std::size_t count) {
  std::size_t side = 0;
  while (side * side < count) ++side;
  return side * side == count ? std::optional(Grid{side, side}) : std::nullopt;
}

constexpr std::int64_t kMaxSide = plan::ImageResize::kMaxSide, kMaxPixels = std::int64_t{1} << 28;

Diagnostic bad_image(const std::string& file, std::string message, std::string hint = {}) {
  return file_failure(ErrorKind::kBadInput, file, std::move(message), std::move(hint));
}

std::string dims_text(const std::vector<std::int64_t>& dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

/// Reads decimal numbers that are separated by given characters. If '#' is among them, also skips
/// comments, from '#' to the end of the line.
class NumberReader {
 public:
  explicit NumberReader(std::string_view text) : text_(text) {}
  /// Returns the next number; nullopt if none follows.
  std::optional<std::int64_t> next(std::string_view separators) {
    while (at_ < text_.size() && (separators.find(text_[at_]) != separators.npos)) {
      if (text_[at_] == '#') at_ = std::min(text_.find('\n', at_), text_.size() - 1);
      ++at_;
    }
    std::int64_t value = -1;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc{}) return std::nullopt;
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }
  std::size_t position() const { return at_; }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

/// Returns the dims without those of size 1.
std::vector<std::int64_t> squeezed(std::vector<std::int64_t> dims) {
  std::erase(dims, 1);
  return dims;
}

/// Returns the elements of a .npy file, which must be 32-bit floats in C order with the dims of
/// `input`, except for dims of size 1.
Result<std::vector<std::byte>> npy_elements(const std::string& file, std::string_view text,
                                            const driver::ImageInput& input) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  constexpr std::size_t kPrefix = 12;
  const Diagnostic damaged = bad_image(file, "is not a .npy file, or is damaged");
  if (text.size() < kPrefix || !text.starts_with("\x93NUMPY") || byte(6) < 1 || byte(6) > 3)
    return damaged;
  const std::size_t begin = byte(6) == 1 ? 10 : 12;
  std::size_t length = byte(8) | std::size_t{byte(9)} << 8;
  if (begin == 12) length |= std::size_t{byte(10)} << 16 | std::size_t{byte(11)} << 24;
  if (length > text.size() - begin) return damaged;
  const std::string_view header = text.substr(begin, length);
  const std::size_t shape = header.find("'shape':");
  if (header.find("'<f4'") == header.npos || header.find("'fortran_order': False") == header.npos ||
      shape == header.npos)
    return bad_image(file, "its elements are not 32-bit floats in C order",
                     "numpy.save(FILE, numpy.ascontiguousarray(pixels, dtype='<f4'))");
  NumberReader reader(header.substr(shape + std::strlen("'shape':")));
  std::vector<std::int64_t> dims;
  while (const auto dim = reader.next(" (,")) dims.push_back(*dim);
  if (squeezed(dims) != squeezed(input.dims))
    return bad_image(file, fmt::format("has the shape {}, but the image encoder reads {}",
                                       dims_text(dims), dims_text(input.dims)));
  const std::string_view elements = text.substr(begin + length);
  if (elements.size() != input.bytes) return damaged;
  return bytes_of(elements);
}

/// Resizes and crops an image like the model's image processor. Fails if the result does not have
/// the size of the encoder's input, `dims`.
Result<hosted::RgbImage> processed(const std::string& file, hosted::RgbImage image,
                                   const std::vector<std::int64_t>& dims,
                                   const plan::ImageResize& how) {
  const std::string sizes = fmt::format("has {} x {} pixels, but the image encoder reads {} x {}",
                                        image.width, image.height, dims[2], dims[1]);
  const std::string hint = fmt::format(
      "resize it first, for example `magick IMAGE -resize {}x{}! FILE.ppm`", dims[2], dims[1]);
  if (how.fit == plan::ImageResize::Fit::kUnknown)
    return bad_image(file,
                     sizes + ", and llmc does not know how to resize it" +
                         (how.unknown_key.empty()
                              ? std::string()
                              : fmt::format(": {} of preprocessor_config.json", how.unknown_key)),
                     hint);
  int width = how.width, height = how.height;
  if (how.fit == plan::ImageResize::Fit::kShortestEdge) {
    const auto longer = [&](int longest, int shortest) {
      return static_cast<int>(static_cast<std::int64_t>(how.width) * longest / shortest);
    };
    if (image.width <= image.height)
      height = longer(image.height, image.width);
    else
      width = longer(image.width, image.height);
  }
  if (static_cast<std::int64_t>(width) * height > kMaxPixels)
    return bad_image(file, fmt::format("has {} x {} pixels, and its shortest edge would become {}",
                                       image.width, image.height, how.width));
  image = hosted::resized(std::move(image), width, height,
                          static_cast<hosted::ImageFilter>(how.filter));
  if (how.crop_width > 0) image = hosted::center_cropped(image, how.crop_width, how.crop_height);
  if (image.height != dims[1] || image.width != dims[2])
    return bad_image(file,
                     fmt::format("{}; preprocessor_config.json makes {} x {} of it", sizes,
                                 image.width, image.height),
                     hint);
  return image;
}

/// Returns the pixels of a binary PPM file, resized and normalized. An image of the encoder's size
/// is not resized.
Result<std::vector<std::byte>> ppm_elements(const std::string& file, std::string_view text,
                                            const driver::ImageInput& input,
                                            const plan::MediaInput& pixels) {
  const std::vector<std::int64_t> dims = squeezed(input.dims);
  if (dims.size() != 3 || dims[0] != 3)
    return bad_image(file,
                     fmt::format("the image encoder reads {}, not one image of three colors",
                                 dims_text(input.dims)),
                     "give the encoder's input as a .npy file");
  if (!pixels.known)
    return bad_image(file,
                     "the model has no preprocessor_config.json, which says how bytes become "
                     "the image encoder's input",
                     "give the encoder's input as a .npy file");
  NumberReader reader(text.substr(2));
  constexpr std::string_view kSpace = " \t\r\n#";
  const auto width = reader.next(kSpace), height = reader.next(kSpace), most = reader.next(kSpace);
  if (!width || !height || most != 255)
    return bad_image(file, "is not a binary PPM file (P6) with 8 bits a color");
  if (*width < 1 || *height < 1 || *width > kMaxSide || *height > kMaxSide)
    return bad_image(file, fmt::format("has {} x {} pixels; 1 to {} on each side are supported",
                                       *width, *height, kMaxSide));
  const auto size = 3 * static_cast<std::size_t>(*width * *height);
  const std::size_t begin = 2 + reader.position() + 1;
  if (text.size() < begin || text.size() - begin != size)
    return bad_image(file, "is truncated, or has more than one image");
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(text.data()) + begin;
  hosted::RgbImage image{
      static_cast<int>(*width), static_cast<int>(*height), {bytes, bytes + size}};
  if (*height != dims[1] || *width != dims[2]) {
    LLMC_TRY(image, processed(file, std::move(image), dims, pixels.resize));
  }
  const std::size_t area = image.bytes.size() / 3;
  std::vector<std::byte> elements(image.bytes.size() * sizeof(float));
  for (std::size_t color = 0; color < 3; ++color)
    for (std::size_t i = 0; i < area; ++i) {
      const double byte = image.bytes[3 * i + color];
      const auto value = static_cast<float>((byte * pixels.rescale - pixels.mean[color]) /
                                            pixels.deviation[color]);
      std::memcpy(elements.data() + (color * area + i) * sizeof value, &value, sizeof value);
    }
  return elements;
}

/// Returns the spectrogram of a WAV file. Silence after the sound extends it to the length of the
/// encoder's input.
Result<std::vector<std::byte>> wav_elements(const std::string& file, std::string_view text,
                                            const driver::ImageInput& input,
                                            const plan::SoundFeatures& how) {
  const std::vector<std::int64_t> dims = squeezed(input.dims);
  constexpr std::uint32_t kMaxMels = 1024;  // limit of log_mel()
  if (dims.size() != 2 || how.mels == 0 || how.mels > kMaxMels || dims[0] != how.mels ||
      how.normalized)
    return bad_image(file,
                     fmt::format("the audio encoder reads {}, which is not Whisper's spectrogram "
                                 "as preprocessor_config.json describes it",
                                 dims_text(input.dims)),
                     "give the encoder's input as a .npy file");
  const auto sound = hosted::read_wav(std::as_bytes(std::span(text)), file);
  if (!sound)
    return bad_image(file, printable(sound.failure().message.substr(file.size() + 2)),
                     sound.failure().hint);
  const double seconds = static_cast<double>(sound->samples.size()) / sound->rate;
  const double most = static_cast<double>(dims[1] * hosted::kMelHop) / how.rate;
  if (seconds > most)
    return bad_image(
        file, fmt::format("is {:.2f} seconds long, and the encoder reads {:.2f}", seconds, most),
        "divide the file");
  const std::vector<float> samples = hosted::resample(sound->samples, sound->rate, how.rate);
  const std::vector<float> features =
      hosted::log_mel(samples, how.mels, static_cast<std::size_t>(dims[1]));
  std::vector<std::byte> bytes(features.size() * sizeof(float));
  std::memcpy(bytes.data(), features.data(), bytes.size());
  return bytes;
}

Result<std::vector<std::byte>> read_pixels(const std::string& file, const driver::ImageInput& input,
                                           const plan::MediaInput& pixels,
                                           const plan::SoundFeatures& sound) {
  LLMC_TRY(const std::string text, read_file(file));
  if (text.starts_with("\x93NUMPY")) return npy_elements(file, text, input);
  if (pixels.is_sound() && text.starts_with("RIFF")) return wav_elements(file, text, input, sound);
  if (text.starts_with("P6") && text.size() != input.bytes)
    return ppm_elements(file, text, input, pixels);
  if (text.size() != input.bytes)
    return bad_image(file,
                     fmt::format("has {} bytes, but the image encoder reads {}: f32{}", text.size(),
                                 input.bytes, dims_text(input.dims)),
                     pixels.is_sound()
                         ? "give a WAV file, a .npy file or raw 32-bit floats"
                         : "give a .npy file, raw 32-bit floats, or a .ppm file (P6)");
  return bytes_of(text);
}

/// Returns a tensor of ones, for a mask.
std::vector<std::byte> ones(const driver::ImageInput& input) {
  const std::size_t width = ir::element_bytes(input.element);
  std::vector<std::byte> bytes(input.bytes);
  for (std::size_t i = 0; i < bytes.size(); i += width) bytes[i] = std::byte{1};
  return bytes;
}

/// Returns the positions of an image with `count` rows (PromptImage::positions).
Result<std::vector<std::int32_t>> grid_positions(const std::string& grid, std::size_t count,
                                                 std::uint32_t axes) {
  const std::optional<Grid> size = grid.empty() ? square(count) : parse_grid(grid);
  if (!size)
    return usage_error(
        fmt::format("the image has {} that do not form a square", counted(count, "row")),
        "give their lines and columns with --image-grid");
  if (size->lines * size->columns != count)
    return usage_error(fmt::format("the image has {}, not {} x {}", counted(count, "row"),
                                   size->lines, size->columns),
                       "give other numbers with --image-grid");
  std::vector<std::int32_t> positions(count * axes);
  for (std::size_t i = 0; i < count; ++i) {
    std::int32_t* const last = &positions[(i + 1) * axes - 1];
    if (axes > 1) last[-1] = static_cast<std::int32_t>(i / size->columns);
    *last = static_cast<std::int32_t>(i % size->columns);
  }
  return positions;
}

/// Returns the data of the encoder's inputs: the pixels of the file, and masks that hide nothing.
Result<std::vector<std::vector<std::byte>>> image_inputs(const std::string& file,
                                                         const driver::BundleFacts& facts,
                                                         const plan::MediaInput& how,
                                                         const plan::SoundFeatures& sound) {
  std::vector<std::vector<std::byte>> data;
  bool has_pixels = false;
  for (const driver::ImageInput& input : facts.image_inputs) {
    if (input.element == ir::ElementType::kF32 && !has_pixels) {
      LLMC_TRY(auto pixels, read_pixels(file, input, how, sound));
      data.push_back(std::move(pixels));
      has_pixels = true;
    } else if (!ir::is_float(input.element) && input.name.find("mask") != std::string::npos) {
      data.push_back(ones(input));
    } else {
      return usage_error(
          fmt::format("--image cannot fill the image encoder's input '{}', {}{}",
                      printable(input.name, 60), ir::to_string(input.element),
                      dims_text(input.dims)),
          "it fills one input of 32-bit floats, and masks; call llmc_encode_image in a program");
    }
  }
  return data;
}

}  // namespace

Status check_image_options(const ImageOptions& images) {
  if (images.grid.empty()) return ok_status();
  if (images.files.empty())
    return usage_error("--image-grid has no effect without --image", "leave it out");
  if (!parse_grid(images.grid))
    return usage_error(fmt::format("--image-grid '{}' is not two numbers of lines and columns",
                                   printable(images.grid)),
                       "for example 24x32");
  return ok_status();
}

Result<std::vector<PromptImage>> prompt_images(const ImageOptions& options,
                                               const std::vector<std::int32_t>& ids,
                                               const std::string& model,
                                               const exec::NativeModel& native) {
  std::vector<PromptImage> images;
  const std::vector<std::string>& files = options.files;
  if (files.empty()) return images;
  const driver::BundleFacts& facts = native.bundle_facts();
  if (facts.image_inputs.empty())
    return usage_error("--image needs a model with an image encoder",
                       "give the folder with vision_encoder.onnx beside the decoder");
  if (facts.image_open)
    return usage_error("--image needs an image encoder of fixed sizes",
                       "give numbers instead of ranges by --dim");
  const bool is_sound = facts.media.is_sound();
  const std::uint32_t axes = is_sound ? 0 : native.model().position_axes;
  if (!options.grid.empty() && axes == 0)
    return usage_error("--image-grid needs a model with positions in images", "leave it out");
  plan::MediaInput pixels;
  plan::SoundFeatures sound;
  if (is_sound) {
    LLMC_TRY(pixels, driver::sound_token_of(model));
    LLMC_TRY(sound, driver::sound_features_of(model));
  } else {
    LLMC_TRY(pixels, driver::image_pixels_of(model));
  }
  const std::int32_t mark = pixels.token;
  const char* const kind = is_sound ? "audio" : "image";
  if (mark < 0)
    return usage_error(
        fmt::format("the model's config.json has no {0}_token_index or {0}_token_id, which "
                    "says where an {0} enters the prompt",
                    kind),
        "add one to config.json");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != mark) continue;
    const std::size_t begin = i;
    while (i + 1 < ids.size() && ids[i + 1] == mark) ++i;
    const std::size_t count = i + 1 - begin;
    images.push_back({.begin = begin,
                      .end = i + 1,
                      .inputs = {},
                      .width = native.model().embedding_width,
                      .rows = is_sound && count > 1 ? count : 0,
                      .positions = {}});
  }
  if (images.size() != files.size())
    return usage_error(
        fmt::format("{} {} are given, and the prompt has {} places with the {} token {}",
                    files.size(), is_sound ? "sounds" : "images", images.size(), kind, mark),
        "write the token's text in the prompt once for each file, or its id with --ids");
  const bool several = std::ranges::any_of(facts.image_inputs, [](const driver::ImageInput& input) {
    return input.element == ir::ElementType::kF32 && squeezed(input.dims).size() > 3;
  });
  if (axes > 0 && several)
    return usage_error("--image takes one image a file for a model with positions in images",
                       "give the image encoder a batch of 1 by --dim");
  for (std::size_t i = 0; i < files.size(); ++i) {
    LLMC_TRY(images[i].inputs, image_inputs(files[i], facts, pixels, sound));
    if (axes == 0) continue;
    LLMC_TRY(images[i].positions, grid_positions(options.grid, native.model().image_rows, axes));
  }
  return images;
}

}  // namespace llmc::cli

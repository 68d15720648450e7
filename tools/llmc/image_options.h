#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/exec/native.h"
#include "tools/llmc/cli.h"

/// Images in the prompt of `run`.
namespace llmc::cli {

/// Options for images. `grid`: "LINESxCOLUMNS" of the rows of each image; empty: a square.
struct ImageOptions {
  std::vector<std::string> files;
  std::string grid;
};

/// Adds --image, which may be repeated, and --image-grid.
void add_image_options(CLI::App& app, ImageOptions& images);

/// Returns an error if --image-grid has no effect or is not a grid.
Status check_image_options(const ImageOptions& images);

/// The rows of an image or a sound, and where they enter.
struct PromptImage {
  std::size_t begin = 0, end = 0;              // range of its tokens in the prompt's ids
  std::vector<std::vector<std::byte>> inputs;  // of the encoder
  std::size_t width = 0;                       // elements of a row
  std::size_t rows = 0;                        // of the encoder's, from the first; 0: all
  /// Positions of an image's rows, for models with several positions of each token: 0 (its time) on
  /// all axes but the last two, then line and column. Empty: those of text.
  std::vector<std::int32_t> positions;

  /// Returns the number of rows, of `all` that the encoder computes.
  std::size_t used(std::size_t all) const { return rows == 0 ? all : std::min(rows, all); }
};

/// Reads the images of a prompt with these ids. `model`: its folder or bundle; `native`: the same
/// model loaded. The tokens of an image are one mark, the model's image token, or several in a row.
/// Fails with kUsage if the model has no image encoder, or one whose inputs are not pixels and
/// masks of fixed sizes, if the prompt has another number of images, if a grid is given for a model
/// without positions in images, or if the rows do not fill it. Files for an encoder of sounds are
/// WAV files; a row of its tokens takes as many of its rows, the first ones. Fails with kBadInput
/// for a file that cannot be read or does not fit the encoder.
Result<std::vector<PromptImage>> prompt_images(const ImageOptions& options,
                                               const std::vector<std::int32_t>& ids,
                                               const std::string& model,
                                               const exec::NativeModel& native);

}  // namespace llmc::cli

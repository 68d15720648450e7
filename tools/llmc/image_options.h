#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/exec/native.h"
#include "tools/llmc/cli.h"

/// Images and sounds in the prompt of `run`.
namespace llmc::cli {

/// Options for images. `files`: paths of images, or of sounds for an encoder of sound. `grid`:
/// "LINESxCOLUMNS", the arrangement of the encoder's rows of each image; empty: a square.
struct ImageOptions {
  std::vector<std::string> files;
  std::string grid;
};

/// Adds --image, which may be repeated, and --image-grid.
void add_image_options(CLI::App& app, ImageOptions& images);

/// Returns an error if --image-grid has no effect or is not a grid.
Status check_image_options(const ImageOptions& images);

/// An image or a sound: the inputs of its encoder, and the place of its rows in the prompt.
struct PromptImage {
  std::size_t begin = 0, end = 0;              // range of its tokens in the prompt's ids
  std::vector<std::vector<std::byte>> inputs;  // data of the encoder's inputs
  std::size_t width = 0;                       // number of floats of a row
  std::size_t rows = 0;  // number of the encoder's rows to use, from the first; 0: all
  /// Positions of an image's rows, for models with several position axes. Each row has 0 (its time)
  /// on all axes but the last two, then its line and its column. Empty: the positions of text.
  std::vector<std::int32_t> positions;

  /// Returns the number of rows to use, given that the encoder computes `all` rows.
  std::size_t used(std::size_t all) const { return rows == 0 ? all : std::min(rows, all); }
};

/// Reads the images or sounds of a prompt with the tokens `ids`. `model`: folder or bundle of the
/// model; `native`: the same model, loaded. In the prompt, an image is one image token of the model
/// or several successive ones. One sound token is replaced by all rows of the encoder; n > 1
/// successive sound tokens are replaced by the first n rows. Fails with kUsage if the
/// model has no media encoder, one whose inputs are not pixels and masks of fixed sizes, or no
/// token for images or sounds. Fails with kUsage if the prompt has another number of images, if a
/// grid is given for a model without positions in images, if the rows do not fill the grid, or if
/// the encoder of a model with positions in images takes several at once. Fails with kBadInput for
/// a file that cannot be read or does not fit the encoder.
Result<std::vector<PromptImage>> prompt_images(const ImageOptions& options,
                                               const std::vector<std::int32_t>& ids,
                                               const std::string& model,
                                               const exec::NativeModel& native);

}  // namespace llmc::cli

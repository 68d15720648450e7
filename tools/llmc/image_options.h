#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/exec/native.h"
#include "tools/llmc/cli.h"

/// Images in the prompt of `run`.
namespace llmc::cli {

/// Adds --image, which may be repeated.
void add_image_option(CLI::App& app, std::vector<std::string>& files);

/// The rows of an image or a sound, and where they enter.
struct PromptImage {
  std::size_t begin = 0, end = 0;              // range of its tokens in the prompt's ids
  std::vector<std::vector<std::byte>> inputs;  // of the encoder
  std::size_t width = 0;                       // elements of a row
  std::size_t rows = 0;                        // of the encoder's, from the first; 0: all

  /// Returns the number of rows, of `all` that the encoder computes.
  std::size_t used(std::size_t all) const { return rows == 0 ? all : std::min(rows, all); }
};

/// Reads the images of a prompt with these ids. `model`: its folder or bundle; `native`: the same
/// model loaded. The tokens of an image are one mark, the model's
/// image token, or several in a row. Fails with kUsage if the model has no image encoder, or one
/// whose inputs are not pixels and masks of fixed sizes, or if the prompt has another number of
/// images. Files for an encoder of sounds are WAV files; a row of its tokens takes as many of its
/// rows, the first ones. Fails with kBadInput for a file that cannot be read or does not fit the
/// encoder.
Result<std::vector<PromptImage>> prompt_images(const std::vector<std::string>& files,
                                               const std::vector<std::int32_t>& ids,
                                               const std::string& model,
                                               const exec::NativeModel& native);

}  // namespace llmc::cli

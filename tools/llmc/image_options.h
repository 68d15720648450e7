#pragma once

#include <string>
#include <vector>

#include "compiler/exec/native.h"
#include "tools/llmc/cli.h"

/// Images in the prompt of `run`.
namespace llmc::cli {

/// Adds --image, which may be repeated.
void add_image_option(CLI::App& app, std::vector<std::string>& files);

/// The rows of an image, and where they enter.
struct PromptImage {
  std::size_t begin = 0, end = 0;              // range of the image's tokens in the prompt's ids
  std::vector<std::vector<std::byte>> inputs;  // of the image encoder
};

/// Reads the images of a prompt with these ids. `model`: its folder or bundle; `native`: the same
/// model loaded. The tokens of an image are one mark, the model's
/// image token, or several in a row. Fails with kUsage if the model has no image encoder, or one
/// whose inputs are not pixels and masks of fixed sizes, or if the prompt has another number of
/// images. Fails with kBadInput for a file that cannot be read or does not fit the encoder.
Result<std::vector<PromptImage>> prompt_images(const std::vector<std::string>& files,
                                               const std::vector<std::int32_t>& ids,
                                               const std::string& model,
                                               const exec::NativeModel& native);

}  // namespace llmc::cli

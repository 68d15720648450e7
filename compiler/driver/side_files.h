#pragma once

#include <filesystem>
#include <vector>

#include "compiler/onnx/model.h"

namespace llmc::driver {

/// Adds the configuration and tokenizer files of `model`, a folder or one .onnx file, to `files`,
/// which already lists the files that binding read. Names are relative to the model's folder. Files
/// that are listed already are not added again, and a tokenizer only if there is none in `files`.
/// Sorts `files` by name.
void add_side_files(const std::filesystem::path& model, std::vector<importer::FileInfo>& files);

}  // namespace llmc::driver

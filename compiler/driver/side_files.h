#pragma once

#include <filesystem>
#include <vector>

#include "compiler/onnx/model.h"

namespace llmc::driver {

/// Adds the configurations and the tokenizer of `model`, a folder or one .onnx file, to `files`,
/// which has the files that binding read. Names are relative to the model's folder. Sorts by name.
void add_side_files(const std::filesystem::path& model, std::vector<importer::FileInfo>& files);

}  // namespace llmc::driver

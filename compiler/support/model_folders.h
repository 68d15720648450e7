#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace llmc {

/// Name of the folder for graphs, in the folder with the configuration and the tokenizer.
inline constexpr const char* kGraphFolder = "onnx";

/// Returns the folders to search for files that belong to `model` (a folder or one .onnx file), in
/// order. The first is the folder itself, or the file's folder. If its name is kGraphFolder after
/// symbolic links are resolved, its parent is the second. The folders need not exist.
std::vector<std::filesystem::path> model_folders(const std::filesystem::path& model);

/// Returns the path of `name` in the first of `folders` that contains it; nullopt if none contains
/// it.
std::optional<std::filesystem::path> find_in_folders(
    const std::vector<std::filesystem::path>& folders, const char* name);

}  // namespace llmc

#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace llmc {

/// Folder in which exporters store graphs, below that of the configuration and the tokenizer.
inline constexpr const char* kGraphFolder = "onnx";

/// Returns the folders to search for files that belong to `model`, a folder or one .onnx file, in
/// order: its own folder, then, if that is called kGraphFolder after resolving symbolic links, the
/// parent. Neither needs to exist.
std::vector<std::filesystem::path> model_folders(const std::filesystem::path& model);

/// Returns `name` in the first of `folders` that contains it; nullopt if none does.
std::optional<std::filesystem::path> find_in_folders(
    const std::vector<std::filesystem::path>& folders, const char* name);

}  // namespace llmc

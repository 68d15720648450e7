#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace llmc {

/// Folder that exporters put graphs into, below the one of the configuration and the tokenizer.
inline constexpr const char* kGraphFolder = "onnx";

/// Returns the folders in which files that belong to `model`, a folder or one .onnx file, are
/// looked for, in order: its own, and then, if that is called kGraphFolder once symbolic links are
/// resolved, the one above. Neither needs to exist.
std::vector<std::filesystem::path> model_folders(const std::filesystem::path& model);

/// Returns `name` in the first of `folders` that has it; nullopt if none has.
std::optional<std::filesystem::path> find_in_folders(
    const std::vector<std::filesystem::path>& folders, const char* name);

}  // namespace llmc

#include "compiler/support/model_folders.h"

#include <system_error>

namespace llmc {

namespace fs = std::filesystem;

std::vector<fs::path> model_folders(const fs::path& model) {
  std::error_code ignored;
  const bool is_file = fs::is_regular_file(model, ignored) ||
                       (model.extension() == ".onnx" && !fs::is_directory(model, ignored));
  fs::path folder = is_file ? model.parent_path() : model;
  if (folder.empty()) folder = ".";
  fs::path real = fs::weakly_canonical(fs::absolute(folder, ignored), ignored);
  if (!real.has_filename())
    real = real.parent_path();  // path ends with a slash and the folder does not exist
  std::vector<fs::path> folders{folder};
  if (real.filename() == kGraphFolder) folders.push_back(real.parent_path());
  return folders;
}

std::optional<fs::path> find_in_folders(const std::vector<fs::path>& folders, const char* name) {
  std::error_code ignored;
  for (const fs::path& folder : folders)
    if (fs::exists(folder / name, ignored)) return folder / name;
  return std::nullopt;
}

}  // namespace llmc

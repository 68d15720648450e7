#include "compiler/driver/side_files.h"

#include <algorithm>

#include "compiler/driver/tokenizer_file.h"
#include "compiler/support/model_folders.h"

namespace llmc::driver {

namespace fs = std::filesystem;

namespace {

fs::path normal_path(const fs::path& path) {
  std::error_code ignored;
  return fs::absolute(path, ignored).lexically_normal();
}

}  // namespace

void add_side_files(const fs::path& model, std::vector<importer::FileInfo>& files) {
  const std::vector<fs::path> folders = model_folders(model);
  const auto add = [&](const fs::path& path, importer::FileRole role) {
    std::error_code error;
    const auto bytes = fs::file_size(path, error);
    if (error) return;
    const std::string name =
        normal_path(path).lexically_relative(normal_path(folders.front())).string();
    const auto known = std::ranges::find(files, name, &importer::FileInfo::name);
    if (known == files.end())
      files.push_back({path, name, role, bytes});
    else if (known->role == importer::FileRole::kIgnored)
      known->role = role;
  };
  for (const char* const name :
       {"llm_config.json", "config.json", "generation_config.json", "genai_config.json",
        "tokenizer_config.json", "chat_template.jinja", "chat_template.json",
        "preprocessor_config.json"})
    if (const auto path = find_in_folders(folders, name)) add(*path, importer::FileRole::kConfig);
  const fs::path tokenizer = driver::find_tokenizer(model);
  const bool has_tokenizer =
      std::ranges::count(files, importer::FileRole::kTokenizer, &importer::FileInfo::role) > 0;
  if (!has_tokenizer && !tokenizer.empty()) {
    add(tokenizer, importer::FileRole::kTokenizer);
    for (const fs::path& part : hosted::Tokenizer::sibling_files(tokenizer))
      add(part, importer::FileRole::kTokenizer);
  }
  std::ranges::sort(files, {}, &importer::FileInfo::name);
}

}  // namespace llmc::driver

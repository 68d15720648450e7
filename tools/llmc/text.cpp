#include "tools/llmc/text.h"

#include <fstream>
#include <iostream>
#include <iterator>
#include <system_error>

namespace llmc::cli {

Result<std::unique_ptr<hosted::Tokenizer>> load_tokenizer(const std::filesystem::path& model) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(model, error);
  const std::filesystem::path where = folder ? model : model.parent_path();
  for (const char* const name : {"tokenizer.txt", "tokenizer.model"}) {
    const std::filesystem::path path = where / name;
    if (!std::filesystem::exists(path, error)) continue;
    auto loaded = hosted::Tokenizer::load(path);
    if (loaded.ok()) return std::move(*loaded);
    return Diagnostic{.kind = ErrorKind::kBadInput,
                      .file = path.string(),
                      .node = {},
                      .op = {},
                      .message = loaded.failure().message,
                      .hint = "without text, --ids takes token ids"};
  }
  return Diagnostic{.kind = ErrorKind::kBadInput,
                    .file = where.string(),
                    .node = {},
                    .op = {},
                    .message = "holds no tokenizer.txt and no tokenizer.model",
                    .hint = "put the model's tokenizer there, or give token ids with --ids"};
}

Result<std::string> read_text(const std::string& path) {
  const auto failed = [&](const char* what) {
    return Diagnostic{.kind = ErrorKind::kBadInput,
                      .file = path == "-" ? "standard input" : path,
                      .node = {},
                      .op = {},
                      .message = what,
                      .hint = "give a readable text file, or - for standard input"};
  };
  std::error_code error;
  if (path != "-" && std::filesystem::is_directory(path, error)) return failed("is a folder");
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& in = path == "-" ? std::cin : file;
  if (!in) return failed("cannot be opened");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) return failed("cannot be read");
  return text;
}

}  // namespace llmc::cli

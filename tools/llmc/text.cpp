#include "tools/llmc/text.h"

#include <fstream>
#include <iostream>
#include <iterator>
#include <system_error>

#include "compiler/driver/bundle_files.h"

namespace llmc::cli {

namespace {

std::filesystem::path find_beside(const std::filesystem::path& folder) {
  std::error_code error;
  for (const char* const name : {"tokenizer.txt", "tokenizer.model"})
    if (std::filesystem::exists(folder / name, error)) return folder / name;
  return {};
}

/// The tokenizer file of `model`; empty when there is none.
std::filesystem::path tokenizer_path(const std::filesystem::path& model) {
  std::error_code error;
  if (!std::filesystem::is_directory(model, error)) return find_beside(model.parent_path());
  if (driver::bundle_name(model)) {
    const auto facts = driver::read_bundle(model);
    return facts.ok() && !facts->tokenizer_file.empty() ? model / facts->tokenizer_file
                                                        : std::filesystem::path();
  }
  return find_beside(model);
}

}  // namespace

Result<std::unique_ptr<hosted::Tokenizer>> load_tokenizer(const std::filesystem::path& model) {
  const std::filesystem::path path = tokenizer_path(model);
  if (path.empty()) {
    return Diagnostic{.kind = ErrorKind::kBadInput,
                      .file = model.string(),
                      .node = {},
                      .op = {},
                      .message = "has no tokenizer.txt and no tokenizer.model",
                      .hint = "put the model's tokenizer there, or give token ids with --ids"};
  }
  auto loaded = hosted::Tokenizer::load(path);
  if (loaded.ok()) return std::move(*loaded);
  return Diagnostic{.kind = ErrorKind::kBadInput,
                    .file = path.string(),
                    .node = {},
                    .op = {},
                    .message = loaded.failure().message,
                    .hint = "without text, --ids takes token ids"};
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

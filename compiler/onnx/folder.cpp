#include "compiler/onnx/folder.h"

#include <algorithm>
#include <charconv>

#include "compiler/onnx/storage.h"
#include "compiler/onnx/tokenizer_file.h"
#include "compiler/support/file.h"

namespace llmc::importer {
namespace fs = std::filesystem;
namespace {

/// Returns the digits of "block_DIGITS.onnx"; nullopt for other names.
std::optional<std::string> block_digits(const std::string& name) {
  constexpr std::string_view kPrefix = "block_", kSuffix = ".onnx";
  if (name.size() <= kPrefix.size() + kSuffix.size() || !name.starts_with(kPrefix) ||
      !name.ends_with(kSuffix))
    return std::nullopt;
  auto digits = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  if (digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return digits;
}

/// Orders the blocks' names by number and checks that the numbers are 0 … n-1.
Status order_blocks(std::vector<std::string>& names) {
  std::vector<std::pair<std::int64_t, std::string>> blocks;
  for (const auto& name : names) {
    const std::string digits = *block_digits(name);
    if (digits.size() > 4)
      return file_failure(ErrorKind::kBadInput, name, "the block's number is too large",
                          "number the blocks from 0 without gaps");
    if (digits.size() > 1 && digits[0] == '0')
      return file_failure(ErrorKind::kBadInput, name,
                          "the block's number has a leading zero, so another file may have the "
                          "same number",
                          "rename it to block_" + std::to_string(std::stoll(digits)) + ".onnx");
    blocks.emplace_back(std::stoll(digits), name);
  }
  std::sort(blocks.begin(), blocks.end());
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].first != static_cast<std::int64_t>(i))
      return file_failure(ErrorKind::kBadInput, "block_" + std::to_string(i) + ".onnx",
                          "the file is missing, but there is " + blocks[i].second,
                          "copy the missing block into the folder");
  for (std::size_t i = 0; i < blocks.size(); ++i) names[i] = std::move(blocks[i].second);
  return ok_status();
}

/// Uses embed_tokens.onnx as the embedding if there is no embedding.onnx.
void find_token_embedding(FolderContents& contents, std::vector<std::string>& names) {
  const std::string name = best_named(names, "embed_tokens");
  if (contents.embedding_graph || name.empty()) return;
  contents.embedding_graph = name;
  std::erase(names, name);
}

Result<std::vector<std::string>> files_in(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (!it->is_directory(ignored)) names.push_back(it->path().filename().string());
  }
  if (error) return system_error(folder, "list the folder", error.value());
  std::sort(names.begin(), names.end());
  return names;
}

/// Returns the field of `contents` for the file name, or nullptr for other files.
std::optional<std::string>* known_slot(FolderContents& contents, std::string_view name) {
  if (name == "embeddings_bf16.bin" || name == "embedding_bf16.bin")
    return &contents.embedding_table;
  if (name == "embedding.onnx") return &contents.embedding_graph;
  if (name == "lm.onnx") return &contents.head;
  if (name == "llm_config.json") return &contents.config;
  if (name == "tokenizer.txt") return &contents.tokenizer_text;
  if (name == "tokenizer.model") return &contents.tokenizer_model;
  return nullptr;
}

Result<std::string_view> read_text(FileSet& files, const std::string& name, FileRole role,
                                   std::uint64_t max_bytes) {
  LLMC_TRY(const auto mapped, files.map(name, role));
  const auto bytes = mapped->bytes();
  if (bytes.size() > max_bytes) {
    return file_failure(ErrorKind::kBadInput, name,
                        "is larger than the " + std::to_string(max_bytes) + " bytes allowed");
  }
  // The FileSet owns the mapping.
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

FolderContents known_files(const fs::path& folder) {
  FolderContents contents;
  for (const char* name : {"embedding_bf16.bin", "embeddings_bf16.bin", "embedding.onnx",
                           "llm_config.json", "tokenizer.txt", "tokenizer.model"}) {
    std::error_code error;
    if (fs::exists(folder / name, error)) *known_slot(contents, name) = name;
  }
  auto names = files_in(folder);
  if (names.ok()) find_token_embedding(contents, *names);
  return contents;
}

Result<FolderContents> list_folder(const fs::path& folder) {
  FolderContents contents;
  LLMC_TRY(const auto names, files_in(folder));
  for (const auto& name : names) {
    if (block_digits(name))
      contents.blocks.push_back(name);
    else if (auto* slot = known_slot(contents, name))
      *slot = name;
    else
      contents.others.push_back(name);
  }
  find_token_embedding(contents, contents.others);
  LLMC_RETURN_IF_ERROR(order_blocks(contents.blocks));
  return contents;
}

Result<LlmConfig> read_config(FileSet& files, const FolderContents& contents) {
  if (!contents.config) return LlmConfig{};
  LLMC_TRY(const auto text, read_text(files, *contents.config, FileRole::kConfig, 1 << 20));
  return parse_config(text, *contents.config);
}

Result<std::optional<TokenizerFile>> read_tokenizer(FileSet& files, const FolderContents& contents,
                                                    std::int64_t vocabulary) {
  std::optional<TokenizerFile> found;
  if (contents.tokenizer_text) {
    LLMC_TRY(const auto text, read_text(files, *contents.tokenizer_text, FileRole::kTokenizer,
                                        std::uint64_t{1} << 28));
    LLMC_TRY(found, check_tokenizer_text(text, *contents.tokenizer_text, vocabulary));
    found->path = files.root() / *contents.tokenizer_text;
    if (contents.tokenizer_model) files.note(*contents.tokenizer_model, FileRole::kIgnored);
  } else if (contents.tokenizer_model) {
    LLMC_RETURN_IF_ERROR(files.map(*contents.tokenizer_model, FileRole::kTokenizer));
    found.emplace();
    found->path = files.root() / *contents.tokenizer_model;
    found->kind = TokenizerKind::kSentencePieceModel;
  }
  return found;
}

}  // namespace llmc::importer

#include <optional>
#include <system_error>
#include <utility>

#include "runtime/hosted/mapped_weights.h"
#include "runtime/hosted/tokenizer.h"
#include "runtime/hosted/tokenizer/spec.h"
#include "runtime/hosted/tokenizer/table_tokenizer.h"

// Only this file uses the readers of source formats, so that programs that load only tables do not
// link them.
namespace llmc::hosted {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

std::string_view text_of(const MappedWeights& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

/// Returns the paths of the sibling files for this content, and the members that receive their
/// content.
std::vector<std::pair<std::filesystem::path, std::string SiblingFiles::*>> siblings_of(
    const std::filesystem::path& path, std::string_view content) {
  if (is_tables(content) || is_tokenizer_text(content)) return {};
  if (is_tiktoken(content)) return {{path.string() + ".json", &SiblingFiles::encoding}};
  const std::filesystem::path folder = path.parent_path();
  return {{folder / "tokenizer_config.json", &SiblingFiles::config},
          {folder / "added_tokens.json", &SiblingFiles::added},
          {folder / "special_tokens_map.json", &SiblingFiles::special}};
}

/// Reads the sibling files. Files that do not exist stay empty. Fails if an existing file cannot be
/// read, because its information would be missing.
std::optional<Failure> read_siblings(const std::filesystem::path& path, std::string_view content,
                                     SiblingFiles& siblings) {
  for (const auto& [name, member] : siblings_of(path, content)) {
    std::error_code unknown;
    if (!std::filesystem::exists(name, unknown)) continue;
    const auto file = MappedWeights::open(name);
    if (!file) return file.failure();
    if (file->bytes().size() > kMaxBytes)
      return Failure{LLMC_ERROR_FORMAT, name.string() + ": too large"};
    siblings.*member = text_of(*file);
  }
  return std::nullopt;
}

Outcome<std::unique_ptr<Tokenizer>> read(std::string_view content, const SiblingFiles& siblings,
                                         const std::string& name) {
  const auto made = [&](const Outcome<TokenizerSpec>& spec) -> Outcome<std::unique_ptr<Tokenizer>> {
    if (!spec) return spec.failure();
    return make_tokenizer(*spec, name);
  };
  if (content.starts_with("version https://git-lfs.github.com/spec/"))
    return Failure{LLMC_ERROR_FORMAT,
                   name + ": is a Git LFS pointer, not the file itself; git lfs pull fetches it"};
  if (is_tokenizer_text(content)) return made(read_tokenizer_text(content, name));
  if (content.starts_with('{') || name.ends_with(".json"))
    return made(read_tokenizer_json(content, siblings, name));
  if (is_tiktoken(content)) return made(read_tiktoken(content, siblings.encoding, name));
  return made(read_sentencepiece_model(content, siblings, name));
}

}  // namespace

Outcome<std::unique_ptr<Tokenizer>> make_tokenizer(const TokenizerSpec& spec,
                                                   const std::string& name) {
  auto tables = make_tables(spec, name);
  if (!tables) return tables.failure();
  const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(*tables));
  return tokenizer_of_tables(*kept, kept, name);
}

std::vector<std::filesystem::path> Tokenizer::sibling_files(const std::filesystem::path& path) {
  const auto file = MappedWeights::open(path);
  if (!file) return {};  // load() fails before it reads sibling files
  std::vector<std::filesystem::path> files;
  for (const auto& [name, member] : siblings_of(path, text_of(*file))) files.push_back(name);
  return files;
}

Outcome<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::filesystem::path& path) {
  auto file = MappedWeights::open(path);
  if (!file) return file.failure();
  if (file->bytes().size() > kMaxBytes)
    return Failure{LLMC_ERROR_FORMAT, path.string() + ": too large for a tokenizer"};
  if (is_tables(text_of(*file))) {
    const auto kept = std::make_shared<const MappedWeights>(std::move(*file));
    return tokenizer_of_tables(kept->bytes(), kept, path.string());
  }
  // Copy the content, because the file must not change after the parsers have checked it.
  const std::string content(text_of(*file));
  SiblingFiles siblings;
  if (const auto failure = read_siblings(path, content, siblings)) return *failure;
  return read(content, siblings, path.string());
}

Outcome<std::unique_ptr<Tokenizer>> Tokenizer::parse(std::string_view content,
                                                     const std::string& name) {
  if (!is_tables(content)) return read(content, {}, name);
  // Copy the content to memory with the alignment of tables.
  const auto kept = std::make_shared<const std::vector<std::byte>>(
      reinterpret_cast<const std::byte*>(content.data()),
      reinterpret_cast<const std::byte*>(content.data()) + content.size());
  return tokenizer_of_tables(*kept, kept, name);
}

}  // namespace llmc::hosted

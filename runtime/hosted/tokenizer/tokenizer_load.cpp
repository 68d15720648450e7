#include "runtime/hosted/mapped_weights.h"
#include "runtime/hosted/tokenizer.h"
#include "runtime/hosted/tokenizer/spec.h"
#include "runtime/hosted/tokenizer/table_tokenizer.h"

// Everything that reads source formats hangs on this file; tables are read without it.
namespace llmc::hosted {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;

std::string_view text_of(const MappedWeights& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

/// The content of a file beside `path`; empty when there is none.
std::string beside(const std::filesystem::path& path) {
  const auto file = MappedWeights::open(path);
  return file && file->bytes().size() <= kMostBytes ? std::string(text_of(*file)) : std::string();
}

/// `settings`: what stands beside the file, for the formats that need it.
Outcome<std::unique_ptr<Tokenizer>> read(std::string_view content, const std::string& settings,
                                         const std::string& name) {
  const auto made = [&](const Outcome<TokenizerSpec>& spec) -> Outcome<std::unique_ptr<Tokenizer>> {
    if (!spec) return spec.failure();
    return make_tokenizer(*spec, name);
  };
  if (is_tokenizer_text(content)) return made(read_tokenizer_text(content, name));
  if (content.starts_with('{')) return made(read_tokenizer_json(content, settings, name));
  if (is_tiktoken(content)) return made(read_tiktoken(content, settings, name));
  return made(read_sentencepiece_model(content, name));
}

}  // namespace

Outcome<std::unique_ptr<Tokenizer>> make_tokenizer(const TokenizerSpec& spec,
                                                   const std::string& name) {
  auto tables = make_tables(spec, name);
  if (!tables) return tables.failure();
  const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(*tables));
  return tokenizer_of_tables(*kept, kept, name);
}

Outcome<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::filesystem::path& path) {
  auto file = MappedWeights::open(path);
  if (!file) return file.failure();
  if (file->bytes().size() > kMostBytes)
    return Failure{LLMC_ERROR_FORMAT, path.string() + ": too large for a tokenizer"};
  if (is_tables(text_of(*file))) {
    const auto kept = std::make_shared<const MappedWeights>(std::move(*file));
    return tokenizer_of_tables(kept->bytes(), kept, path.string());
  }
  // A copy: what the parsers check must not change under them.
  const std::string content(text_of(*file));
  std::string settings;
  if (content.starts_with('{'))
    settings = beside(path.parent_path() / "tokenizer_config.json");
  else if (is_tiktoken(content))
    settings = beside(path.string() + ".json");
  return read(content, settings, path.string());
}

Outcome<std::unique_ptr<Tokenizer>> Tokenizer::parse(std::string_view content,
                                                     const std::string& name) {
  if (!is_tables(content)) return read(content, {}, name);
  // A copy that lies as tables must.
  const auto kept = std::make_shared<const std::vector<std::byte>>(
      reinterpret_cast<const std::byte*>(content.data()),
      reinterpret_cast<const std::byte*>(content.data()) + content.size());
  return tokenizer_of_tables(*kept, kept, name);
}

}  // namespace llmc::hosted

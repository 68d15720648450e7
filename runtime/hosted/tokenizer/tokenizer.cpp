#include "runtime/hosted/tokenizer.h"

#include <algorithm>

#include "runtime/hosted/mapped_weights.h"
#include "runtime/hosted/tokenizer/normalizer.h"
#include "runtime/hosted/tokenizer/prefix_index.h"
#include "runtime/hosted/tokenizer/utf8.h"
#include "runtime/hosted/tokenizer/vocabulary.h"

namespace llmc::hosted {

Outcome<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::filesystem::path& path) {
  auto file = MappedWeights::open(path);
  if (!file) return file.failure();
  const auto bytes = file->bytes();
  constexpr std::size_t kMost = std::size_t{1} << 30;
  if (bytes.size() > kMost)
    return Failure{LLMC_ERROR_FORMAT, path.string() + ": too large for a tokenizer"};
  // A copy: what the parsers check must not change under them.
  const std::string content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (content.starts_with('{')) {
    std::string config;
    if (const auto beside = MappedWeights::open(path.parent_path() / "tokenizer_config.json");
        beside && beside->bytes().size() <= kMost)
      config.assign(reinterpret_cast<const char*>(beside->bytes().data()), beside->bytes().size());
    return parse_tokenizer_json(content, config, path.string());
  }
  return parse(content, path.string());
}

Outcome<std::unique_ptr<Tokenizer>> Tokenizer::parse(std::string_view content,
                                                     const std::string& name) {
  if (is_tokenizer_text(content)) return parse_tokenizer_text(content, name);
  if (content.starts_with('{')) return parse_tokenizer_json(content, {}, name);
  auto vocabulary = parse_sentencepiece_model(content, name);
  if (!vocabulary) return vocabulary.failure();
  return make_sentencepiece(std::move(*vocabulary), name);
}

std::optional<std::int32_t> Tokenizer::bos() const {
  if (special_.prefix.empty()) return std::nullopt;
  return special_.prefix.front();
}

bool Tokenizer::is_stop(std::int32_t id) const {
  return std::find(special_.stop.begin(), special_.stop.end(), id) != special_.stop.end();
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<std::int32_t> ids;
  if (options.add_prefix) ids = special_.prefix;
  if (!options.parse_special) {
    encode_text(text, ids);
    return ids;
  }
  std::vector<PrefixIndex::Entry> names;
  for (const auto* list : {&special_.special, &special_.stop, &special_.prefix})
    for (const std::int32_t id : *list) names.emplace_back(name_of(id), id);
  const PrefixIndex index(std::move(names));
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size();) {
    const PrefixIndex::Entry* special = index.longest(text.substr(i));
    if (special == nullptr) {
      ++i;
      continue;
    }
    if (i > start) encode_text(text.substr(start, i - start), ids);
    ids.push_back(special->second);
    i += special->first.size();
    start = i;
  }
  if (start < text.size()) encode_text(text.substr(start), ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  StreamDecoder decoder(*this, true);
  std::string text;
  for (const std::int32_t id : ids) text += decoder.add(id);
  return text + decoder.finish();
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool at_start)
    : tokenizer_(tokenizer),
      drop_(at_start ? tokenizer.leading_spaces() : Tokenizer::LeadingSpaces::kKept) {}

std::string StreamDecoder::add(std::int32_t id) {
  std::string_view bytes = tokenizer_.bytes_of(id);
  if (drop_ != Tokenizer::LeadingSpaces::kKept && !bytes.empty()) {
    // Only a space that stands for the mark: an unknown token's text keeps its own.
    if (tokenizer_.name_of(id).starts_with(kSpaceMark)) bytes.remove_prefix(1);
    if (drop_ == Tokenizer::LeadingSpaces::kOneDropped || !bytes.empty())
      drop_ = Tokenizer::LeadingSpaces::kKept;
  }
  pending_ += bytes;
  return take_whole_utf8(pending_, false);
}

std::string StreamDecoder::finish() {
  return take_whole_utf8(pending_, true);
}

}  // namespace llmc::hosted

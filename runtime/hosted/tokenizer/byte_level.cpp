#include <optional>
#include <unordered_map>

#include "runtime/hosted/tokenizer/bpe.h"
#include "runtime/hosted/tokenizer/prefix_index.h"
#include "runtime/hosted/tokenizer/vocabulary.h"

namespace llmc::hosted {
namespace {

/// Byte-level BPE with a list of merges: the pair that stands first in the list is joined first.
class ByteLevel final : public Tokenizer {
 public:
  explicit ByteLevel(ByteLevelVocabulary vocabulary) : v_(std::move(vocabulary)) {
    special_ = v_.ids;
  }

  /// Fills the tables; what is wrong with the vocabulary, or empty.
  std::string index() {
    std::vector<bool> added(v_.tokens.size(), false);
    for (const std::int32_t id : v_.added) added[static_cast<std::size_t>(id)] = true;
    control_.assign(v_.tokens.size(), false);
    for (const std::int32_t id : special_.special) control_[static_cast<std::size_t>(id)] = true;
    for (std::size_t i = 0; i < v_.tokens.size(); ++i)
      if (!added[i] && !v_.tokens[i].empty())
        ids_.try_emplace(v_.tokens[i], static_cast<std::int32_t>(i));
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      if (!ids_.contains(std::string_view(&c, 1)))
        return "byte " + std::to_string(byte) + " has no token: some text has no ids";
    }
    for (std::size_t rank = 0; rank < v_.merges.size(); ++rank)
      ranks_.try_emplace(key(v_.merges[rank].left, v_.merges[rank].right),
                         static_cast<std::int64_t>(rank));
    std::vector<PrefixIndex::Entry> plain;
    for (const std::int32_t id : v_.added)
      if (!control_[static_cast<std::size_t>(id)])
        plain.emplace_back(v_.tokens[static_cast<std::size_t>(id)], id);
    added_ = PrefixIndex(std::move(plain));
    return {};
  }

  std::size_t size() const override { return v_.tokens.size(); }
  std::string_view name_of(std::int32_t id) const override {
    return known(id) ? std::string_view(v_.tokens[static_cast<std::size_t>(id)]) : "";
  }
  std::string_view bytes_of(std::int32_t id) const override {
    return known(id) && !control_[static_cast<std::size_t>(id)] ? name_of(id) : "";
  }
  LeadingSpaces leading_spaces() const override { return LeadingSpaces::kKept; }

 protected:
  void encode_text(std::string_view text, std::vector<std::int32_t>& ids) const override {
    std::size_t start = 0;
    for (std::size_t i = 0; i < text.size() && !added_.empty();) {
      const PrefixIndex::Entry* found = added_.longest(text.substr(i));
      if (found == nullptr) {
        ++i;
        continue;
      }
      encode_words(text.substr(start, i - start), ids);
      ids.push_back(found->second);
      i += found->first.size();
      start = i;
    }
    encode_words(text.substr(start), ids);
  }

 private:
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  bool known(std::int32_t id) const {
    return id >= 0 && static_cast<std::size_t>(id) < v_.tokens.size();
  }

  void encode_words(std::string_view text, std::vector<std::int32_t>& ids) const {
    std::string with_space;
    if (v_.space_in_front && !text.empty() && text[0] != ' ') {
      with_space = " " + std::string(text);
      text = with_space;
    }
    while (!text.empty()) {
      const std::string_view word = v_.splits ? text.substr(0, first_word(text, v_.pattern)) : text;
      text.remove_prefix(word.size());
      encode_word(word, ids);
    }
  }

  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
    if (v_.ignore_merges) {
      if (const auto whole = ids_.find(word); whole != ids_.end()) {
        ids.push_back(whole->second);
        return;
      }
    }
    std::vector<BpeSymbol> symbols(word.size());
    for (std::size_t i = 0; i < word.size(); ++i) symbols[i].text = word.substr(i, 1);
    link_symbols(symbols);
    merge_pairs(
        symbols,
        [&](std::string_view left, std::string_view right) -> std::optional<std::int64_t> {
          const auto it = ranks_.find(key(ids_.find(left)->second, ids_.find(right)->second));
          if (it == ranks_.end()) return std::nullopt;
          return -it->second;
        },
        [](std::string_view, std::string_view) {});
    for (std::ptrdiff_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next)
      ids.push_back(ids_.find(symbols[static_cast<std::size_t>(i)].text)->second);
  }

  ByteLevelVocabulary v_;
  std::vector<bool> control_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
  std::unordered_map<std::uint64_t, std::int64_t> ranks_;
  PrefixIndex added_;
};

}  // namespace

Outcome<std::unique_ptr<Tokenizer>> make_byte_level(ByteLevelVocabulary vocabulary,
                                                    const std::string& name) {
  auto tokenizer = std::make_unique<ByteLevel>(std::move(vocabulary));
  if (const std::string problem = tokenizer->index(); !problem.empty())
    return Failure{LLMC_ERROR_FORMAT, name + ": " + problem};
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace llmc::hosted

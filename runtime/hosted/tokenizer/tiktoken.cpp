#include <array>
#include <limits>
#include <optional>
#include <unordered_map>

#include "runtime/hosted/tokenizer/bpe.h"
#include "runtime/hosted/tokenizer/pretokenizer.h"
#include "runtime/hosted/tokenizer/vocabulary.h"

namespace llmc::hosted {
namespace {

/// Byte-level BPE: words are split by the pattern of pretokenizer.h, then bytes are merged, the
/// pair with the lowest id first.
class Tiktoken final : public Tokenizer {
 public:
  explicit Tiktoken(TiktokenVocabulary vocabulary) : tokens_(std::move(vocabulary.tokens)) {
    special_ = std::move(vocabulary.ids);
  }

  /// Fills the tables; what is wrong with the vocabulary, or empty.
  std::string index() {
    control_.assign(tokens_.size(), false);
    for (const std::int32_t id : special_.special) control_[static_cast<std::size_t>(id)] = true;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (!control_[i] && !tokens_[i].empty())
        ids_.try_emplace(tokens_[i], static_cast<std::int32_t>(i));
    }
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      if (ids_.count(std::string_view(&c, 1)) == 0)
        return "byte " + std::to_string(byte) + " has no token: some text has no ids";
    }
    return {};
  }

  std::size_t size() const override { return tokens_.size(); }
  std::string_view name_of(std::int32_t id) const override {
    return known(id) ? std::string_view(tokens_[static_cast<std::size_t>(id)]) : "";
  }
  std::string_view bytes_of(std::int32_t id) const override {
    return known(id) && !control_[static_cast<std::size_t>(id)] ? name_of(id) : "";
  }
  LeadingSpaces leading_spaces() const override { return LeadingSpaces::kKept; }

 protected:
  void encode_text(std::string_view text, std::vector<std::int32_t>& ids) const override {
    std::vector<BpeSymbol> symbols;
    while (!text.empty()) {
      const std::string_view word = text.substr(0, first_word(text, SplitPattern::kQwen2));
      text.remove_prefix(word.size());
      if (const auto whole = ids_.find(word); whole != ids_.end()) {
        ids.push_back(whole->second);
        continue;
      }
      symbols.clear();
      for (std::size_t i = 0; i < word.size(); ++i) {
        symbols.emplace_back();
        symbols.back().text = word.substr(i, 1);
      }
      link_symbols(symbols);
      merge_pairs(
          symbols,
          [&](std::string_view left, std::string_view right) -> std::optional<std::int32_t> {
            const auto it = ids_.find(union_of(left, right));
            if (it == ids_.end()) return std::nullopt;
            return -it->second;
          },
          [](std::string_view, std::string_view) {});
      for (std::ptrdiff_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next)
        ids.push_back(ids_.find(symbols[static_cast<std::size_t>(i)].text)->second);
    }
  }

 private:
  bool known(std::int32_t id) const {
    return id >= 0 && static_cast<std::size_t>(id) < tokens_.size();
  }

  std::vector<std::string> tokens_;
  std::vector<bool> control_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
};

}  // namespace

Outcome<std::unique_ptr<Tokenizer>> make_tiktoken(TiktokenVocabulary vocabulary,
                                                  const std::string& name) {
  auto tokenizer = std::make_unique<Tiktoken>(std::move(vocabulary));
  if (const std::string problem = tokenizer->index(); !problem.empty())
    return Failure{LLMC_ERROR_FORMAT, name + ": " + problem};
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace llmc::hosted

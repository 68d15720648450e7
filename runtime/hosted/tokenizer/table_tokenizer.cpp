#include "runtime/hosted/tokenizer/table_tokenizer.h"

#include <array>
#include <optional>

#include "runtime/hosted/tokenizer/models.h"
#include "runtime/hosted/tokenizer/normalizers.h"
#include "runtime/hosted/tokenizer/pretokenizers.h"
#include "runtime/hosted/tokenizer/tables.h"
#include "runtime/hosted/tokenizer/unicode.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {
namespace {

/// Returns the last character of `text`, which must not be empty.
Utf8Char last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && text.size() - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80)
    --at;
  const Utf8Char c = decode_utf8(text.substr(at));
  return c.bytes == text.size() - at ? c : Utf8Char{};
}

bool ends_with_word(std::string_view text) {
  const Utf8Char c = text.empty() ? Utf8Char{} : last_character(text);
  return c.bytes > 0 && is_word(c.code_point);
}
bool starts_with_word(std::string_view text) {
  const Utf8Char c = decode_utf8(text);
  return c.bytes > 0 && is_word(c.code_point);
}
/// Returns the position at which the trailing white space of text[from ..) begins.
std::size_t spaces_before(std::string_view text, std::size_t from) {
  while (text.size() > from) {
    const Utf8Char c = last_character(text.substr(from));
    if (c.bytes == 0 || !is_space(c.code_point)) break;
    text.remove_suffix(c.bytes);
  }
  return std::max(text.size(), from);
}
/// Returns the size in bytes of the leading white space.
std::size_t spaces_after(std::string_view text) {
  std::size_t end = 0;
  for (Utf8Char c = decode_utf8(text); c.bytes > 0 && is_space(c.code_point);
       c = decode_utf8(text.substr(end)))
    end += c.bytes;
  return end;
}

/// Encodes one text.
class Encoding {
 public:
  Encoding(const Tables& tables, bool parse_special, Ids& ids)
      : tables_(tables), parse_special_(parse_special), ids_(ids) {}

  void run(std::string_view text) {
    find_added(text, tables_.added(),
               [&](std::string_view part) { ordinary(part, part.data() == text.data()); });
  }

 private:
  /// Appends the ids of added tokens, and calls `between` for the text between them. Matches like
  /// Hugging Face's AddedVocabulary::find_matches: the leftmost match, and the longest of those.
  template <class Between>
  void find_added(std::string_view text, const TextIndex& index, Between&& between) {
    std::size_t done = 0, blanks_begin = 1, blanks_end = 0;
    for (std::size_t at = 0; at < text.size() && !index.empty();) {
      const IndexRecord* found = index.longest(text.substr(at));
      if (found == nullptr) {
        ++at;
        continue;
      }
      std::size_t begin = at, end = at + found->text.bytes;
      at = end;
      if ((found->flags & kAddedSpecial) != 0 && !parse_special_) continue;
      if ((found->flags & kAddedSingleWord) != 0 &&
          (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end))))
        continue;
      if ((found->flags & kAddedLeftStrip) != 0)
        begin = spaces_before(text.substr(0, begin), std::min(done, begin));
      if ((found->flags & kAddedRightStrip) != 0) {
        // A token of blanks may match again in the blanks after it, whose end is then already
        // known.
        if (end < blanks_begin || end > blanks_end) {
          blanks_begin = end;
          blanks_end = end + spaces_after(text.substr(end));
        }
        end = blanks_end;
      }
      if (begin > done) between(text.substr(done, begin - done));
      ids_.push_back(static_cast<std::int32_t>(found->value));
      done = end;
    }
    if (text.size() > done) between(text.substr(done));
  }

  void ordinary(std::string_view text, bool begins) {
    if (tables_.normalizers().empty()) return normalized(text, begins);
    std::string changed(text);
    for (const StepRecord& step : tables_.normalizers())
      changed = normalize(tables_, step, std::move(changed));
    normalized(changed, begins);
  }

  void normalized(std::string_view text, bool begins) {
    find_added(text, tables_.added_after(),
               [&](std::string_view part) { split(part, begins && part.data() == text.data()); });
  }

  void split(std::string_view text, bool begins) {
    TextStore store;
    std::vector<Part> parts{{text, begins}};
    for (std::size_t i = 0; i < tables_.pretokenizers().size(); ++i)
      pretokenize(tables_, i, parts, store);
    for (const Part& part : parts)
      if (!part.text.empty()) encode_word(part.text);
  }

  void encode_word(std::string_view word) {
    switch (tables_.settings().model) {
      case ModelKind::kBpe:
        if (!bpe_) bpe_.emplace(tables_);
        return bpe_->encode(word, ids_);
      case ModelKind::kUnigram:
        if (!unigram_) unigram_.emplace(tables_);
        return unigram_->encode(word, ids_);
      case ModelKind::kWordPiece:
        if (!word_piece_) word_piece_.emplace(tables_);
        return word_piece_->encode(word, ids_);
    }
  }

  const Tables& tables_;
  const bool parse_special_;
  Ids& ids_;
  std::optional<BpeModel> bpe_;
  std::optional<UnigramModel> unigram_;
  std::optional<WordPieceModel> word_piece_;
};

class TableTokenizer final : public Tokenizer {
 public:
  TableTokenizer(Tables tables, std::span<const std::byte> bytes, std::shared_ptr<const void> keep)
      : tables_(std::move(tables)), bytes_(bytes), keep_(std::move(keep)) {
    const auto list = [&](Section which) {
      const auto ids = tables_.ids(which);
      return Ids(ids.begin(), ids.end());
    };
    special_ = {.special = list(Section::kSpecialIds),
                .stop = list(Section::kStopIds),
                .prefix = list(Section::kPrefixIds),
                .suffix = list(Section::kSuffixIds)};
  }

  std::size_t size() const override { return tables_.tokens().size(); }
  std::string_view bytes_of(std::int32_t id) const override {
    return known(id) ? tables_.text(token(id).surface) : std::string_view();
  }
  std::string_view name_of(std::int32_t id) const override {
    return known(id) ? tables_.text(token(id).name) : std::string_view();
  }
  LeadingSpaces leading_spaces() const override {
    return static_cast<LeadingSpaces>(tables_.settings().leading_spaces);
  }
  std::span<const std::byte> tables() const override { return bytes_; }

 protected:
  void encode_text(std::string_view text, bool parse_special, Ids& ids) const override {
    Encoding(tables_, parse_special, ids).run(text);
  }

 private:
  bool known(std::int32_t id) const {
    return id >= 0 && static_cast<std::size_t>(id) < tables_.tokens().size();
  }
  const TokenRecord& token(std::int32_t id) const {
    return tables_.tokens()[static_cast<std::size_t>(id)];
  }

  const Tables tables_;
  const std::span<const std::byte> bytes_;
  const std::shared_ptr<const void> keep_;
};

}  // namespace

Outcome<std::unique_ptr<Tokenizer>> tokenizer_of_tables(std::span<const std::byte> tables,
                                                        std::shared_ptr<const void> keep,
                                                        const std::string& name) {
  auto opened = Tables::open(tables, name);
  if (!opened) return opened.failure();
  return std::unique_ptr<Tokenizer>(
      std::make_unique<TableTokenizer>(std::move(*opened), tables, std::move(keep)));
}

Outcome<std::unique_ptr<Tokenizer>> Tokenizer::from_tables(std::span<const std::byte> tables,
                                                           const std::string& name) {
  return tokenizer_of_tables(tables, nullptr, name);
}

}  // namespace llmc::hosted

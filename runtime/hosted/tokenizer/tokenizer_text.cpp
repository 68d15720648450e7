#include <charconv>
#include <cmath>
#include <limits>

#include "runtime/hosted/tokenizer/base64.h"
#include "runtime/hosted/tokenizer/vocabulary.h"

namespace llmc::hosted {
namespace {

constexpr std::string_view kMagic = "430 ";

/// Takes lines and the words in them off a text, and knows the line's number for messages.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  bool next() {
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find('\n');
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    ++number_;
    return true;
  }
  std::string_view word() {
    while (line_.starts_with(' ')) line_.remove_prefix(1);
    const std::string_view word = line_.substr(0, line_.find(' '));
    line_.remove_prefix(word.size());
    return word;
  }
  bool at_line_end() const { return line_.find_first_not_of(' ') == std::string_view::npos; }
  std::size_t number() const { return number_; }
  std::size_t bytes_left() const { return rest_.size(); }

 private:
  std::string_view rest_, line_;
  std::size_t number_ = 0;
};

template <class Number>
bool parse_number(std::string_view word, Number& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return !word.empty() && error == std::errc() && end == word.data() + word.size();
}

class TextParser {
 public:
  TextParser(std::string_view content, const std::string& name) : lines_(content), name_(name) {}

  Outcome<std::unique_ptr<Tokenizer>> parse() {
    int type = -1;
    if (!lines_.next() || lines_.word() != "430" || !parse_number(lines_.word(), type) ||
        !lines_.at_line_end()) {
      return failure("expected '430 TYPE'");
    }
    if (type != 0 && type != 1) {
      const char* what = type == 2   ? "2 (bert)"
                         : type == 3 ? "3 (Hugging Face)"
                                     : "other than 0 and 1";
      return failure(std::string("a vocabulary of type ") + what +
                     " is not supported; types 0 (sentencepiece) and 1 (tiktoken) are");
    }
    SpecialIds ids;
    if (const std::string problem = special_ids(ids); !problem.empty()) return failure(problem);
    if (!lines_.next() || !parse_number(lines_.word(), count_) || !lines_.at_line_end())
      return failure("expected the number of tokens");
    // A token takes at least a line's end, so a count that lies cannot make us reserve much.
    if (count_ == 0 || count_ > std::numeric_limits<std::int32_t>::max() ||
        count_ > lines_.bytes_left() + 1) {
      return failure(std::to_string(count_) + " tokens are announced; the file cannot hold them");
    }
    for (const auto* list : {&ids.special, &ids.stop, &ids.prefix}) {
      for (const std::int32_t id : *list) {
        if (static_cast<std::uint64_t>(id) >= count_)
          return failure("id " + std::to_string(id) + " is listed as special, but there are only " +
                         std::to_string(count_) + " tokens");
      }
    }
    return type == 0 ? sentencepiece(std::move(ids)) : tiktoken(std::move(ids));
  }

 private:
  Failure failure(const std::string& what) const {
    return {LLMC_ERROR_FORMAT, name_ + ": line " + std::to_string(lines_.number()) + ": " + what};
  }

  /// What is wrong, or empty.
  std::string special_ids(SpecialIds& ids) {
    std::uint64_t counts[3] = {};
    bool good = lines_.next();
    for (std::uint64_t& count : counts) good = good && parse_number(lines_.word(), count);
    if (!good || !lines_.at_line_end())
      return "expected the numbers of special, stop and prefix ids";
    good = lines_.next();
    std::vector<std::int32_t>* const lists[] = {&ids.special, &ids.stop, &ids.prefix};
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::uint64_t n = 0; good && n < counts[i]; ++n) {
        std::int32_t id = -1;
        good = parse_number(lines_.word(), id) && id >= 0;
        if (good) lists[i]->push_back(id);
      }
    }
    if (!good || !lines_.at_line_end())
      return "expected as many special, stop and prefix ids as the line above says";
    return {};
  }

  Outcome<std::unique_ptr<Tokenizer>> sentencepiece(SpecialIds ids) {
    SentencePieceVocabulary vocabulary;
    vocabulary.rules.remove_extra_whitespaces = false;
    bool whole_scores = true;
    for (std::uint64_t i = 0; i < count_; ++i) {
      if (!lines_.next()) return too_few(i);
      const auto text = decode_base64(lines_.word());
      Piece piece;
      int type = 0;
      if (!text) return failure("a token is not valid base64");
      if (!parse_number(lines_.word(), piece.score) || !std::isfinite(piece.score))
        return failure("a token's score is not a number");
      if (!parse_number(lines_.word(), type) || type < 1 || type > 6 || !lines_.at_line_end())
        return failure("a token's type is not 1 to 6");
      piece.text = *text;
      piece.type = static_cast<PieceType>(type);
      if (piece.type == PieceType::kNormal) whole_scores &= std::trunc(piece.score) == piece.score;
      vocabulary.pieces.push_back(std::move(piece));
    }
    if (const std::string more = nothing_follows(); !more.empty()) return failure(more);
    vocabulary.algorithm =
        whole_scores ? SentencePieceAlgorithm::kBpe : SentencePieceAlgorithm::kUnigram;
    vocabulary.ids = std::move(ids);
    return make_sentencepiece(std::move(vocabulary), name_);
  }

  Outcome<std::unique_ptr<Tokenizer>> tiktoken(SpecialIds ids) {
    TiktokenVocabulary vocabulary;
    for (std::uint64_t i = 0; i < count_; ++i) {
      if (!lines_.next()) return too_few(i);
      auto bytes = decode_base64(lines_.word());
      if (!bytes || !lines_.at_line_end()) return failure("a token is not valid base64");
      vocabulary.tokens.push_back(std::move(*bytes));
    }
    if (const std::string more = nothing_follows(); !more.empty()) return failure(more);
    vocabulary.ids = std::move(ids);
    return make_tiktoken(std::move(vocabulary), name_);
  }

  Failure too_few(std::uint64_t found) const {
    return failure(std::to_string(count_) + " tokens are announced, " + std::to_string(found) +
                   " are there");
  }
  std::string nothing_follows() {
    while (lines_.next())
      if (!lines_.at_line_end()) return "more lines than the announced tokens";
    return {};
  }

  Lines lines_;
  const std::string& name_;
  std::uint64_t count_ = 0;
};

}  // namespace

bool is_tokenizer_text(std::string_view content) {
  return content.starts_with(kMagic);
}

Outcome<std::unique_ptr<Tokenizer>> parse_tokenizer_text(std::string_view content,
                                                         const std::string& name) {
  return TextParser(content, name).parse();
}

}  // namespace llmc::hosted

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "runtime/hosted/tokenizer/base64.h"
#include "runtime/hosted/tokenizer/spec.h"
#include "runtime/hosted/tokenizer/unicode.h"

namespace llmc::hosted {
namespace {

constexpr std::string_view kMagic = "430 ";

/// Splits a text into lines and words. Counts the lines, for messages.
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
  std::string_view rest() const { return line_; }
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

  Outcome<TokenizerSpec> parse() {
    int type = -1;
    if (!lines_.next() || lines_.word() != "430" || !parse_number(lines_.word(), type) ||
        !lines_.at_line_end()) {
      return failure("expected '430 TYPE'");
    }
    if (type < 0 || type > 3)
      return failure(
          "vocabularies are of type 0 (sentencepiece), 1 (tiktoken), 2 (bert) or 3 "
          "(Hugging Face), not " +
          std::to_string(type));
    SpecialIds ids;
    if (const std::string problem = special_ids(ids); !problem.empty()) return failure(problem);
    std::uint64_t merges = 0;
    if (!lines_.next() || !parse_number(lines_.word(), count_) ||
        (type == 3 && !parse_number(lines_.word(), merges)) || !lines_.at_line_end())
      return failure(type == 3 ? "expected the numbers of tokens and of merges"
                               : "expected the number of tokens");
    // Each token needs at least a line end, so a wrong count cannot reserve too much memory.
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
    if (type == 0) return sentencepiece(std::move(ids));
    if (type == 1) return tiktoken(std::move(ids));
    if (type == 2) return bert(std::move(ids));
    if (merges > lines_.bytes_left() + 1)
      return failure(std::to_string(merges) + " merges are announced; the file cannot hold them");
    return hugging_face(std::move(ids), merges);
  }

 private:
  Failure failure(const std::string& what) const {
    return {LLMC_ERROR_FORMAT, name_ + ": line " + std::to_string(lines_.number()) + ": " + what};
  }

  /// Reads the special ids. Returns what is wrong; empty on success.
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
      return "the number of special, stop and prefix ids differs from the line above";
    return {};
  }

  Outcome<TokenizerSpec> sentencepiece(SpecialIds ids) {
    PieceVocabulary vocabulary;
    vocabulary.rules = kAddSpace | kEscapeSpaces;
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
    vocabulary.unigram = !whole_scores;
    vocabulary.ids = std::move(ids);
    return spec_of_pieces(std::move(vocabulary), name_);
  }

  /// Reads one base64 token per line. Returns false after a problem, which is stored in problem_.
  bool base64_tokens(std::vector<std::string>& tokens) {
    for (std::uint64_t i = 0; i < count_; ++i) {
      if (!lines_.next()) return complain(too_few(i));
      auto bytes = decode_base64(lines_.word());
      if (!bytes || !lines_.at_line_end()) return complain(failure("a token is not valid base64"));
      tokens.push_back(std::move(*bytes));
    }
    const std::string more = nothing_follows();
    return more.empty() || complain(failure(more));
  }

  /// Returns the step for Qwen's normalization to NFC, which the file does not specify.
  static SpecStep composed() {
    return step_of(Normalizer::kForm, static_cast<std::uint32_t>(NormalForm::kNfc));
  }

  Outcome<TokenizerSpec> tiktoken(SpecialIds ids) {
    std::vector<std::string> tokens;
    if (!base64_tokens(tokens)) return problem_;
    auto spec = spec_of_ranks(std::move(tokens), std::move(ids), *pattern_named("qwen2"), name_);
    if (spec) spec->normalizers.push_back(composed());
    return spec;
  }

  Outcome<TokenizerSpec> bert(SpecialIds ids) {
    std::vector<std::string> tokens;
    if (!base64_tokens(tokens)) return problem_;
    TokenizerSpec out;
    out.settings.model = ModelKind::kWordPiece;
    out.settings.units = Units::kCharacters;
    out.settings.max_word_characters = 100;
    out.settings.leading_spaces =
        static_cast<std::uint32_t>(Tokenizer::LeadingSpaces::kOneSpaceDropped);
    out.continuation = "##";
    bool capitals = false;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      SpecToken token;
      token.name = std::move(tokens[i]);
      token.surface = word_piece_surface(token.name, out.continuation, true);
      if (token.name == "[UNK]") out.settings.unknown = static_cast<std::int32_t>(i);
      const bool bracketed = token.name.starts_with('[') && token.name.ends_with(']');
      capitals |= !bracketed && std::any_of(token.name.begin(), token.name.end(),
                                            [](char c) { return c >= 'A' && c <= 'Z'; });
      out.tokens.push_back(std::move(token));
    }
    if (out.settings.unknown < 0)
      return Failure{LLMC_ERROR_FORMAT, name_ + ": a vocabulary of type 2 (bert) without [UNK]"};
    add_controls(ids, out);
    add_bert_steps(true, true, !capitals, !capitals, out);
    add_bert_splitting(out);
    out.ids = std::move(ids);
    return out;
  }

  Outcome<TokenizerSpec> hugging_face(SpecialIds ids, std::uint64_t merges) {
    TokenizerSpec out;
    std::unordered_map<std::string, std::uint32_t> spelled;
    for (std::uint64_t i = 0; i < count_; ++i) {
      if (!lines_.next()) return too_few(i);
      SpecToken token;
      const std::string spelling(lines_.rest());
      if (!bytes_of_spelling(spelling, token.name)) token.name = spelling;
      token.surface = token.name;
      spelled.try_emplace(spelling, static_cast<std::uint32_t>(i));
      out.tokens.push_back(std::move(token));
    }
    for (std::uint64_t i = 0; i < merges; ++i) {
      if (!lines_.next())
        return failure(std::to_string(merges) + " merges are announced, " + std::to_string(i) +
                       " are there");
      const std::string left(lines_.word()), right(lines_.word());
      // merges.txt begins with this line, and the exporter copies all lines of the file.
      if (left.empty() || left.starts_with("#version")) continue;
      const auto l = spelled.find(left), r = spelled.find(right), u = spelled.find(left + right);
      if (l == spelled.end() || r == spelled.end() || u == spelled.end() || !lines_.at_line_end())
        return failure("a merge is not of two tokens that make a third");
      out.merges.push_back({{l->second, r->second, u->second}, static_cast<std::uint32_t>(i)});
    }
    if (const std::string more = nothing_follows(); !more.empty()) return failure(more);
    add_controls(ids, out);
    if (const std::string problem = find_bytes(out); !problem.empty())
      return Failure{LLMC_ERROR_FORMAT, name_ + ": " + problem};
    out.normalizers.push_back(composed());
    out.pretokenizers.push_back(split_step(*pattern_named("qwen2"), SplitBehavior::kIsolated));
    out.ids = std::move(ids);
    return out;
  }

  /// Adds the control tokens, which are neither text nor part of the model.
  static void add_controls(const SpecialIds& ids, TokenizerSpec& out) {
    for (const auto* list : {&ids.special, &ids.stop, &ids.prefix}) {
      for (const std::int32_t id : *list) {
        SpecToken& token = out.tokens[static_cast<std::size_t>(id)];
        if (!token.name.empty()) out.added.push_back({token.name, id, kAddedSpecial, false});
        if (list != &ids.special) continue;
        token.surface.clear();
        token.flags = kControlToken;
        token.in_model = false;
      }
    }
  }

  bool complain(Failure problem) {
    problem_ = std::move(problem);
    return false;
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
  Failure problem_;
};

}  // namespace

bool is_tokenizer_text(std::string_view content) {
  return content.starts_with(kMagic);
}

Outcome<TokenizerSpec> read_tokenizer_text(std::string_view content, const std::string& name) {
  return TextParser(content, name).parse();
}

}  // namespace llmc::hosted

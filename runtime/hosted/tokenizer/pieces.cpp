#include <algorithm>
#include <cfloat>
#include <charconv>
#include <functional>
#include <map>
#include <unordered_map>

#include "runtime/hosted/tokenizer/spec.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::hosted {
namespace {

/// Returns the value of "<0xNN>"; -1 for other texts.
int byte_of(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, value, 16);
  return error == std::errc() && end == piece.data() + 5 ? static_cast<int>(value) : -1;
}

std::string with_spaces(std::string_view piece) {
  std::string text;
  while (!piece.empty()) {
    const bool mark = piece.starts_with(kSpaceMark);
    text += mark ? ' ' : piece[0];
    piece.remove_prefix(mark ? kSpaceMark.size() : 1);
  }
  return text;
}

std::size_t character_bytes(std::string_view text) {
  return std::max<std::size_t>(1, decode_utf8(text).bytes);
}

/// Lists the control tokens that are recognized in text, without duplicates.
void list_control_tokens(const SpecialIds& ids, TokenizerSpec& out) {
  std::vector<bool> listed(out.tokens.size(), false);
  for (const auto* list : {&ids.special, &ids.stop, &ids.prefix}) {
    for (const std::int32_t id : *list) {
      const auto at = static_cast<std::size_t>(id);
      if (listed[at] || out.tokens[at].name.empty()) continue;
      listed[at] = true;
      out.added.push_back({out.tokens[at].name, id, kAddedSpecial, false});
    }
  }
}

class PieceSpec {
 public:
  explicit PieceSpec(PieceVocabulary vocabulary) : v_(std::move(vocabulary)) {}

  /// Fills the spec. Returns what is wrong; empty on success.
  std::string fill() {
    out_.byte_tokens.assign(256, -1);
    for (const Piece& piece : v_.pieces)
      if (std::string problem = add(piece); !problem.empty()) return problem;
    Settings& s = out_.settings;
    s.units = Units::kSentencePiece;
    s.fuse_unknown = 1;
    s.byte_fallback = std::all_of(out_.byte_tokens.begin(), out_.byte_tokens.end(),
                                  [](std::int32_t id) { return id >= 0; });
    if (s.unknown < 0 && s.byte_fallback == 0)
      return "neither an unknown token nor all 256 byte tokens: some text has no ids";
    if (!v_.charsmap.empty() && !Charsmap::is_whole(v_.charsmap))
      return "the text replacement rules are damaged";
    out_.normalizers.push_back(step_of(Normalizer::kSentencePiece, v_.rules, v_.charsmap));
    using Leading = Tokenizer::LeadingSpaces;
    const Leading leading = (v_.rules & kRemoveExtraSpaces) != 0 ? Leading::kAllDropped
                            : (v_.rules & kAddSpace) != 0        ? Leading::kOneDropped
                                                                 : Leading::kKept;
    s.leading_spaces = static_cast<std::uint32_t>(leading);
    if (v_.unigram)
      fill_unigram();
    else
      fill_bpe();
    list_control_tokens(v_.ids, out_);
    out_.ids = v_.ids;
    return {};
  }
  TokenizerSpec take() { return std::move(out_); }

 private:
  std::string add(const Piece& piece) {
    const auto id = static_cast<std::int32_t>(out_.tokens.size());
    SpecToken token;
    token.name = piece.text;
    token.surface = with_spaces(piece.text);
    token.score = piece.score;
    token.in_model = false;
    switch (piece.type) {
      case PieceType::kNormal:
      case PieceType::kUserDefined:
      case PieceType::kUnused:
        token.in_model = true;
        if (piece.type == PieceType::kUserDefined) token.flags = kSymbolToken;
        if (piece.type == PieceType::kUnused) token.flags = kUnusedToken;
        break;
      case PieceType::kUnknown:
        if (out_.settings.unknown >= 0) return "two unknown tokens";
        out_.settings.unknown = id;
        token.surface = v_.unknown_surface;
        break;
      case PieceType::kControl:
        token.surface.clear();
        token.flags = kControlToken;
        break;
      case PieceType::kByte: {
        const int byte = byte_of(piece.text);
        if (byte < 0) return "token " + std::to_string(id) + " is a byte without being <0xNN>";
        out_.byte_tokens[static_cast<std::size_t>(byte)] = id;
        token.surface = std::string(1, static_cast<char>(byte));
        break;
      }
    }
    out_.tokens.push_back(std::move(token));
    return {};
  }

  void fill_unigram() {
    out_.settings.model = ModelKind::kUnigram;
    out_.settings.single_precision = 1;
    // As in sentencepiece, the maximum starts with the smallest positive float.
    float min_score = FLT_MAX, max_score = FLT_MIN;
    for (const Piece& piece : v_.pieces) {
      if (piece.type != PieceType::kNormal) continue;
      min_score = std::min(min_score, piece.score);
      max_score = std::max(max_score, piece.score);
    }
    out_.settings.unknown_score = double{min_score - 10.0f};
    out_.settings.symbol_score = double{max_score};
  }

  /// Adds the merges. sentencepiece merges two neighbours if their joined text is a token. Here the
  /// neighbours are nodes, so that a table can contain the result: the tokens, and the characters
  /// that are not tokens but with which tokens begin or end.
  void fill_bpe() {
    std::unordered_map<std::string_view, std::int32_t> reserved;
    for (std::size_t i = 0; i < v_.pieces.size(); ++i) {
      const auto id = static_cast<std::int32_t>(i);
      if (out_.tokens[i].in_model)
        nodes_.try_emplace(v_.pieces[i].text, static_cast<std::uint32_t>(i));
      else
        reserved.try_emplace(v_.pieces[i].text, id);
    }
    out_.reads_as.resize(out_.tokens.size());
    for (std::size_t i = 0; i < out_.tokens.size(); ++i) {
      const auto it = reserved.find(v_.pieces[i].text);
      out_.reads_as[i] = out_.tokens[i].in_model && it == reserved.end()
                             ? static_cast<std::int32_t>(i)
                         : it == reserved.end() ? -1
                                                : it->second;
    }
    const auto character = [&](std::string_view text) {
      if (nodes_.contains(text)) return;
      const auto it = reserved.find(text);
      SpecToken extra;
      extra.name = text;
      extra.score = it == reserved.end() ? -1 : it->second;
      nodes_.emplace(text, static_cast<std::uint32_t>(out_.tokens.size() + out_.extras.size()));
      out_.extras.push_back(std::move(extra));
    };
    for (std::size_t i = 0; i < v_.pieces.size(); ++i) {
      std::string_view rest = v_.pieces[i].text;
      if (!out_.tokens[i].in_model && rest.size() != (rest.empty() ? 1 : character_bytes(rest)))
        continue;
      for (; !rest.empty(); rest.remove_prefix(character_bytes(rest)))
        character(rest.substr(0, character_bytes(rest)));
    }
    add_merges();
  }

  void add_merges() {
    // The pair with the highest score is merged first.
    std::map<float, std::uint32_t, std::greater<>> ranks;
    for (std::size_t i = 0; i < v_.pieces.size(); ++i)
      if (out_.tokens[i].in_model) ranks.try_emplace(v_.pieces[i].score, 0);
    std::uint32_t next = 0;
    for (auto& [score, rank] : ranks) rank = next++;
    for (std::size_t i = 0; i < v_.pieces.size(); ++i) {
      const std::string_view whole = v_.pieces[i].text;
      if (!out_.tokens[i].in_model || whole.empty() || whole.size() > kMaxTokenBytes) continue;
      if (nodes_.at(whole) != i) continue;  // another token with the same text
      for (std::size_t at = character_bytes(whole); at < whole.size();
           at += character_bytes(whole.substr(at))) {
        const auto left = nodes_.find(whole.substr(0, at)), right = nodes_.find(whole.substr(at));
        if (left == nodes_.end() || right == nodes_.end()) continue;
        out_.merges.push_back({{left->second, right->second, static_cast<std::uint32_t>(i)},
                               ranks.at(v_.pieces[i].score)});
      }
    }
  }

  const PieceVocabulary v_;
  TokenizerSpec out_;
  // BPE: node by text; the keys refer to v_
  std::unordered_map<std::string_view, std::uint32_t> nodes_;
};

}  // namespace

Outcome<TokenizerSpec> spec_of_pieces(PieceVocabulary vocabulary, const std::string& name) {
  PieceSpec spec(std::move(vocabulary));
  if (const std::string problem = spec.fill(); !problem.empty())
    return Failure{LLMC_ERROR_FORMAT, name + ": " + problem};
  return spec.take();
}

Outcome<TokenizerSpec> spec_of_ranks(std::vector<std::string> tokens, SpecialIds ids,
                                     std::string_view pattern, const std::string& name) {
  TokenizerSpec out;
  out.settings.units = Units::kBytes;
  out.settings.whole_words = 1;
  out.pretokenizers.push_back(split_step(pattern, SplitBehavior::kIsolated));
  std::vector<bool> control(tokens.size(), false);
  for (const std::int32_t id : ids.special) control[static_cast<std::size_t>(id)] = true;
  std::unordered_map<std::string_view, std::uint32_t> nodes;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (!control[i] && !tokens[i].empty())
      nodes.try_emplace(tokens[i], static_cast<std::uint32_t>(i));
  out.byte_tokens.resize(256);
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const auto it = nodes.find(std::string_view(&c, 1));
    if (it == nodes.end())
      return Failure{LLMC_ERROR_FORMAT, name + ": byte " + std::to_string(byte) +
                                            " has no token: some text has no ids"};
    out.byte_tokens[byte] = static_cast<std::int32_t>(it->second);
  }
  // All neighbours are tokens, so their ids identify the merge.
  for (const auto& [whole, id] : nodes) {
    for (std::size_t at = 1; at < whole.size() && whole.size() <= kMaxTokenBytes; ++at) {
      const auto left = nodes.find(whole.substr(0, at));
      const auto right = left == nodes.end() ? nodes.end() : nodes.find(whole.substr(at));
      if (right != nodes.end()) out.merges.push_back({{left->second, right->second, id}, id});
    }
  }
  // Sort, because the order of the map depends on the platform, but the tables must not.
  std::sort(out.merges.begin(), out.merges.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second, a.first.left) < std::pair(b.second, b.first.left);
  });
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    SpecToken token;
    if (!control[i]) token.surface = tokens[i];
    token.flags = control[i] ? kControlToken : 0u;
    token.in_model = !control[i];
    token.name = std::move(tokens[i]);
    out.tokens.push_back(std::move(token));
  }
  list_control_tokens(ids, out);
  out.ids = std::move(ids);
  return out;
}

}  // namespace llmc::hosted

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "runtime/hosted/tokenizer/normalizer.h"
#include "runtime/hosted/tokenizer/segment.h"
#include "runtime/hosted/tokenizer/vocabulary.h"

namespace llmc::hosted {
namespace {

/// The value of "<0xNN>", or -1.
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

class SentencePiece final : public Tokenizer {
 public:
  SentencePiece(SentencePieceVocabulary vocabulary, Normalizer normalizer)
      : vocabulary_(std::move(vocabulary)), normalizer_(std::move(normalizer)) {
    special_ = vocabulary_.ids;
  }

  /// Fills the tables; what is wrong with the vocabulary, or empty.
  std::string index();

  std::size_t size() const override { return vocabulary_.pieces.size(); }
  std::string_view name_of(std::int32_t id) const override {
    return known(id) ? std::string_view(vocabulary_.pieces[static_cast<std::size_t>(id)].text) : "";
  }
  std::string_view bytes_of(std::int32_t id) const override {
    return known(id) ? std::string_view(surfaces_[static_cast<std::size_t>(id)]) : "";
  }
  LeadingSpaces leading_spaces() const override {
    const NormalizerRules& rules = normalizer_.rules();
    if (rules.remove_extra_whitespaces) return LeadingSpaces::kAllDropped;
    return rules.add_dummy_prefix ? LeadingSpaces::kOneDropped : LeadingSpaces::kKept;
  }

 protected:
  void encode_text(std::string_view text, std::vector<std::int32_t>& ids) const override;

 private:
  bool known(std::int32_t id) const {
    return id >= 0 && static_cast<std::size_t>(id) < vocabulary_.pieces.size();
  }

  SentencePieceVocabulary vocabulary_;
  Normalizer normalizer_;
  PieceTables tables_;
  std::vector<std::string> surfaces_;
  std::array<std::int32_t, 256> byte_ids_{};
  bool has_bytes_ = false;
};

std::string SentencePiece::index() {
  byte_ids_.fill(-1);
  std::vector<PrefixIndex::Entry> normal, user_defined;
  for (std::size_t i = 0; i < vocabulary_.pieces.size(); ++i) {
    const Piece& piece = vocabulary_.pieces[i];
    const auto id = static_cast<std::int32_t>(i);
    surfaces_.push_back(with_spaces(piece.text));
    if (piece.type == PieceType::kNormal) {
      tables_.least_score = std::min(tables_.least_score, piece.score);
      tables_.most_score = std::max(tables_.most_score, piece.score);
    }
    switch (piece.type) {
      case PieceType::kUserDefined:
        user_defined.emplace_back(piece.text, id);
        [[fallthrough]];
      case PieceType::kNormal:
      case PieceType::kUnused:
        if (!piece.text.empty()) tables_.ids.try_emplace(piece.text, id);
        normal.emplace_back(piece.text, id);
        continue;
      case PieceType::kUnknown:
        if (tables_.unknown_id >= 0) return "two unknown tokens";
        tables_.unknown_id = id;
        surfaces_.back() = vocabulary_.unknown_surface;
        break;
      case PieceType::kControl:
        surfaces_.back().clear();
        break;
      case PieceType::kByte: {
        const int byte = byte_of(piece.text);
        if (byte < 0) return "token " + std::to_string(i) + " is a byte without being <0xNN>";
        byte_ids_[static_cast<std::size_t>(byte)] = id;
        surfaces_.back() = std::string(1, static_cast<char>(byte));
        break;
      }
    }
    tables_.reserved.try_emplace(piece.text, id);
  }
  has_bytes_ = std::all_of(byte_ids_.begin(), byte_ids_.end(), [](auto id) { return id >= 0; });
  if (tables_.unknown_id < 0 && !has_bytes_)
    return "neither an unknown token nor all 256 byte tokens: some text has no ids";
  tables_.user_defined = PrefixIndex(std::move(user_defined));
  if (vocabulary_.algorithm == SentencePieceAlgorithm::kUnigram)
    tables_.trie = PrefixIndex(std::move(normal));
  tables_.pieces = &vocabulary_.pieces;
  return {};
}

void SentencePiece::encode_text(std::string_view text, std::vector<std::int32_t>& ids) const {
  const std::string normalized = normalizer_.normalize(text, tables_.user_defined);
  const std::vector<Segment> segments = vocabulary_.algorithm == SentencePieceAlgorithm::kBpe
                                            ? segment_bpe(tables_, normalized)
                                            : segment_unigram(tables_, normalized);
  bool after_unknown = false;
  for (const Segment& segment : segments) {
    const bool unknown = segment.id == tables_.unknown_id || segment.id < 0;
    if (unknown && has_bytes_) {
      for (const char c : segment.text) ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
    } else if (!unknown || !after_unknown) {  // a run of unknown pieces is one unknown token
      ids.push_back(segment.id);
    }
    after_unknown = unknown && !has_bytes_;
  }
}

}  // namespace

Outcome<std::unique_ptr<Tokenizer>> make_sentencepiece(SentencePieceVocabulary vocabulary,
                                                       const std::string& name) {
  auto normalizer = Normalizer::create(vocabulary.rules, name);
  if (!normalizer) return normalizer.failure();
  auto tokenizer = std::make_unique<SentencePiece>(std::move(vocabulary), std::move(*normalizer));
  if (const std::string problem = tokenizer->index(); !problem.empty())
    return Failure{LLMC_ERROR_FORMAT, name + ": " + problem};
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace llmc::hosted

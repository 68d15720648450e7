#include <bit>
#include <cmath>

#include "runtime/hosted/tokenizer/config_files.h"
#include "runtime/hosted/tokenizer/wire_reader.h"

// The field numbers are those of sentencepiece_model.proto.
namespace llmc::hosted {
namespace {

using Kind = WireField::Kind;

struct Trainer {
  std::uint64_t model_type = 1;
  std::string beginning = "<s>";
  std::string end = "</s>";
};

class ModelParser {
 public:
  /// Parses the message. Returns what is wrong; empty on success.
  Problem parse(std::string_view content) {
    WireReader reader(content);
    while (const auto field = reader.next()) {
      if (field->kind != Kind::kBytes) continue;
      if (field->number == 1) piece(field->bytes);
      if (field->number == 2) trainer(field->bytes);
      if (field->number == 3) normalizer(field->bytes, true);
      if (field->number == 5) normalizer(field->bytes, false);
      if (!problem_.empty()) return problem_;
    }
    if (reader.failed()) return "not a sentencepiece model, or cut short";
    if (vocabulary_.pieces.empty()) return "no tokens in this sentencepiece model";
    if (trainer_.model_type != 1 && trainer_.model_type != 2)
      return not_supported("a sentencepiece model of type word or char");
    vocabulary_.unigram = trainer_.model_type == 1;
    name_special_ids();
    return {};
  }
  PieceVocabulary take() { return std::move(vocabulary_); }

 private:
  void complain(Problem what) {
    if (problem_.empty()) problem_ = std::move(what);
  }

  void piece(std::string_view message) {
    Piece piece;
    WireReader reader(message);
    while (const auto field = reader.next()) {
      if (field->number == 1 && field->kind == Kind::kBytes) piece.text = field->bytes;
      if (field->number == 2 && field->kind == Kind::kFixed32)
        piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field->value));
      if (field->number == 3 && field->kind == Kind::kVarint) {
        if (field->value < 1 || field->value > 6) complain(where() + " has an unknown type");
        piece.type = static_cast<PieceType>(field->value);
      }
    }
    if (reader.failed()) complain(where() + " is damaged");
    if (piece.text.empty()) complain(where() + " is empty");
    if (!std::isfinite(piece.score)) complain(where() + " has a score that is not finite");
    vocabulary_.pieces.push_back(std::move(piece));
  }
  std::string where() const { return "token " + std::to_string(vocabulary_.pieces.size()); }

  void trainer(std::string_view message) {
    WireReader reader(message);
    while (const auto field = reader.next()) {
      if (field->kind == Kind::kVarint) {
        if (field->number == 3) trainer_.model_type = field->value;
        if (field->number == 24) set(kSpaceAsSuffix, field->value != 0);
      }
      if (field->kind == Kind::kBytes) {
        if (field->number == 44) vocabulary_.unknown_surface = field->bytes;
        if (field->number == 46) trainer_.beginning = field->bytes;
        if (field->number == 47) trainer_.end = field->bytes;
      }
    }
    if (reader.failed()) complain("the trainer's part is damaged");
  }

  void normalizer(std::string_view message, bool encoding) {
    WireReader reader(message);
    while (const auto field = reader.next()) {
      if (field->number == 2 && field->kind == Kind::kBytes) {
        if (encoding)
          vocabulary_.charsmap = field->bytes;
        else if (!field->bytes.empty())
          complain(not_supported("text replacement on decoding"));
      }
      if (!encoding || field->kind != Kind::kVarint) continue;
      if (field->number == 3) set(kAddSpace, field->value != 0);
      if (field->number == 4) set(kRemoveExtraSpaces, field->value != 0);
      if (field->number == 5) set(kEscapeSpaces, field->value != 0);
    }
    if (reader.failed()) complain("the normalizer's part is damaged");
  }

  void set(SentencePieceFlag flag, bool on) {
    vocabulary_.rules = on ? vocabulary_.rules | flag : vocabulary_.rules & ~std::uint32_t{flag};
  }

  void name_special_ids() {
    for (std::size_t i = 0; i < vocabulary_.pieces.size(); ++i) {
      const Piece& piece = vocabulary_.pieces[i];
      if (piece.type != PieceType::kControl) continue;
      const auto id = static_cast<std::int32_t>(i);
      vocabulary_.ids.special.push_back(id);
      if (piece.text == trainer_.beginning) vocabulary_.ids.prefix = {id};
      if (piece.text == trainer_.end) vocabulary_.ids.stop = {id};
    }
  }

  Problem problem_;
  Trainer trainer_;
  PieceVocabulary vocabulary_;
};

}  // namespace

Outcome<TokenizerSpec> read_sentencepiece_model(std::string_view content,
                                                const SiblingFiles& siblings,
                                                const std::string& name) {
  ModelParser parser;
  TokenizerConfig config;
  Problem problem = parser.parse(content);
  PieceVocabulary vocabulary = parser.take();
  if (problem.empty()) problem = read_config_files(siblings, config);
  if (problem.empty()) problem = add_config_tokens(config, vocabulary);
  if (!problem.empty()) return failure_of(name, problem);
  auto spec = spec_of_pieces(std::move(vocabulary), name);
  if (!spec) return spec;
  mark_config_tokens(config, *spec);
  if (problem = set_ends(config, *spec); !problem.empty()) return failure_of(name, problem);
  return spec;
}

}  // namespace llmc::hosted

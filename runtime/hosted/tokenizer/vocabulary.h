#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/hosted/outcome.h"
#include "runtime/hosted/tokenizer.h"
#include "runtime/hosted/tokenizer/pretokenizer.h"

/// What tokenizer files hold, as plain data, before anything is built from it.
namespace llmc::hosted {

enum class PieceType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct Piece {
  std::string text;
  float score = 0.0f;
  PieceType type = PieceType::kNormal;
};

enum class SentencePieceAlgorithm : std::uint8_t { kUnigram = 1, kBpe = 2 };

/// How text is brought into the vocabulary's form: sentencepiece's NormalizerSpec.
struct NormalizerRules {
  std::string charsmap;  // compiled replacement rules; empty: characters stay as they are
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool whitespace_as_suffix = false;
};

struct SentencePieceVocabulary {
  std::vector<Piece> pieces;
  SentencePieceAlgorithm algorithm = SentencePieceAlgorithm::kBpe;
  NormalizerRules rules;
  std::string unknown_surface = " \xE2\x81\x87 ";  // what an unknown token reads as
  SpecialIds ids;
};

struct TiktokenVocabulary {
  std::vector<std::string> tokens;  // bytes; the id is also the rank
  SpecialIds ids;
};

/// Byte-level BPE as a tokenizer.json describes it.
struct ByteLevelVocabulary {
  std::vector<std::string> tokens;  // bytes, by id; of added tokens their text
  struct Merge {
    std::int32_t left, right, result;
  };
  std::vector<Merge> merges;        // in order of priority, the first first
  std::vector<std::int32_t> added;  // found in text before anything else; not words of the model
  SplitPattern pattern = SplitPattern::kGpt2;
  bool splits = true;           // by the pattern; otherwise a text is one word
  bool ignore_merges = false;   // a word that is a token is that token
  bool space_in_front = false;  // of every text that does not begin with one
  SpecialIds ids;
};

/// A sentencepiece .model file (a ModelProto message).
Outcome<SentencePieceVocabulary> parse_sentencepiece_model(std::string_view content,
                                                           const std::string& name);

/// Builds a tokenizer; checks what the algorithms rely on.
Outcome<std::unique_ptr<Tokenizer>> make_sentencepiece(SentencePieceVocabulary vocabulary,
                                                       const std::string& name);
Outcome<std::unique_ptr<Tokenizer>> make_tiktoken(TiktokenVocabulary vocabulary,
                                                  const std::string& name);

Outcome<std::unique_ptr<Tokenizer>> make_byte_level(ByteLevelVocabulary vocabulary,
                                                    const std::string& name);

/// Hugging Face's tokenizer.json: byte-level BPE. Parts that would have to be approximated
/// (normalizers, other models, pre-tokenizers and patterns) are refused by name. `config`: the
/// content of the tokenizer_config.json beside it, which names the token that ends a text; may be
/// empty.
Outcome<std::unique_ptr<Tokenizer>> parse_tokenizer_json(std::string_view content,
                                                         std::string_view config,
                                                         const std::string& name);

/// MNN's tokenizer.txt. Type 0 says nothing of algorithm and normalization: scores that are all
/// whole numbers are merge ranks, thus BPE, others are log probabilities, thus unigram; text is
/// normalized as Llama's is (a space in front, nothing replaced, nothing removed).
Outcome<std::unique_ptr<Tokenizer>> parse_tokenizer_text(std::string_view content,
                                                         const std::string& name);
/// Whether `content` starts as a tokenizer.txt does.
bool is_tokenizer_text(std::string_view content);

}  // namespace llmc::hosted

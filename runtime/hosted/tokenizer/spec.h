#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/hosted/outcome.h"
#include "runtime/hosted/tokenizer.h"
#include "runtime/hosted/tokenizer/normalizers.h"
#include "runtime/hosted/tokenizer/pretokenizers.h"
#include "runtime/hosted/tokenizer/split_patterns.h"
#include "runtime/hosted/tokenizer/tables.h"

/// The content of tokenizer files as plain data, from which tables are built, and the functions
/// that read these files.
namespace llmc::hosted {

/// One token of a vocabulary.
struct SpecToken {
  std::string name;     // the key in the model
  std::string surface;  // the text that it represents
  double score = 0;     // unigram
  std::uint32_t flags = 0;
  bool in_model = true;  // whether the model can produce it for ordinary text
};

struct SpecStep {
  std::uint32_t kind = 0, flags = 0;
  std::string first, second;
};
template <class Kind>
SpecStep step_of(Kind kind, std::uint32_t flags = 0, std::string first = {},
                 std::string second = {}) {
  return {static_cast<std::uint32_t>(kind), flags, std::move(first), std::move(second)};
}

/// Returns a step that splits text at the matches of a regular expression. `flags`: SplitFlag.
inline SpecStep split_step(std::string_view expression, SplitBehavior behavior,
                           std::uint32_t flags = 0) {
  return step_of(Pretokenizer::kPattern, static_cast<std::uint32_t>(behavior) << 8 | flags,
                 std::string(expression));
}

struct SpecAdded {
  std::string text;
  std::int32_t id = 0;
  std::uint32_t flags = 0;  // AddedFlag
  bool normalized = false;  // whether it is matched in normalized text
};

struct SpecMerge {
  std::uint32_t left, right, result;
};

struct TokenizerSpec {
  Settings settings;
  std::vector<SpecToken> tokens;
  std::vector<SpecToken> extras;  // nodes that are not tokens; score: the id of a token, or -1
  /// By token: TokenRecord::reads_as. Empty: each token itself.
  std::vector<std::int32_t> reads_as;
  std::vector<std::pair<SpecMerge, std::uint32_t>> merges;  // with their ranks
  std::vector<SpecAdded> added;
  std::vector<SpecStep> normalizers, pretokenizers;
  std::vector<std::int32_t> byte_tokens;  // 256, or none
  std::string continuation;
  SpecialIds ids;
};

/// Builds and checks the tables of a tokenizer. `name` is the name of the file in messages. Fails
/// with LLMC_ERROR_FORMAT if `spec` is inconsistent.
Outcome<std::vector<std::byte>> make_tables(const TokenizerSpec& spec, const std::string& name);

/// Builds a tokenizer that owns its tables.
Outcome<std::unique_ptr<Tokenizer>> make_tokenizer(const TokenizerSpec& spec,
                                                   const std::string& name);

// ---- Readers ----

/// Types of the tokens in a sentencepiece vocabulary, with the numbers of sentencepiece.
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
/// A sentencepiece vocabulary, from a .model or a tokenizer.txt.
struct PieceVocabulary {
  std::vector<Piece> pieces;
  bool unigram = false;  // else BPE
  std::string charsmap;  // compiled replacement rules
  std::uint32_t rules = kAddSpace | kRemoveExtraSpaces | kEscapeSpaces;  // SentencePieceFlag
  std::string unknown_surface = " \xE2\x81\x87 ";  // text of the unknown token
  SpecialIds ids;
};
Outcome<TokenizerSpec> spec_of_pieces(PieceVocabulary vocabulary, const std::string& name);

/// Returns the spec of a byte-level BPE tokenizer in which the id of a token is its rank.
/// `ids.special` are the control tokens. `pattern`: the regular expression that splits the text.
Outcome<TokenizerSpec> spec_of_ranks(std::vector<std::string> tokens, SpecialIds ids,
                                     std::string_view pattern, const std::string& name);

/// The content of the files next to a tokenizer file; empty: there is no such file.
struct SiblingFiles {
  std::string config = {};    // tokenizer_config.json
  std::string added = {};     // added_tokens.json
  std::string special = {};   // special_tokens_map.json
  std::string encoding = {};  // NAME.tiktoken.json of a NAME.tiktoken
};

/// Reads a sentencepiece .model file (a ModelProto message) and the tokens that sibling files add
/// to it.
Outcome<TokenizerSpec> read_sentencepiece_model(std::string_view content,
                                                const SiblingFiles& siblings,
                                                const std::string& name);

/// Reads MNN's tokenizer.txt. Type 0 (sentencepiece) defines neither the algorithm nor the
/// normalization. If the scores of all normal tokens are whole numbers, they are merge ranks (BPE),
/// else log probabilities (unigram). Text is normalized like Llama's: a leading space is added,
/// spaces become U+2581, and nothing else is replaced or removed. Types 1 (tiktoken) and 3 (Hugging
/// Face) do not define their pattern: text is split and normalized like Qwen's. Type 2 is BERT's
/// word pieces; text becomes lower case if no token has an ASCII capital letter.
Outcome<TokenizerSpec> read_tokenizer_text(std::string_view content, const std::string& name);
/// Returns whether `content` starts like a tokenizer.txt.
bool is_tokenizer_text(std::string_view content);

/// Reads Hugging Face's tokenizer.json. Rejects, by name, parts that could only be approximated.
/// Sibling files may add tokens and define which tokens begin and end a text (config_files.h).
Outcome<TokenizerSpec> read_tokenizer_json(std::string_view content, const SiblingFiles& siblings,
                                           const std::string& name);

/// Reads tiktoken's list of `BASE64 RANK` lines. `settings` is JSON with the pattern and the
/// special tokens: {"pattern": "llama3", "special": {"<|eot|>": 5}, "prefix": ["…"], "stop":
/// ["…"]}. If it is empty, the file must have the name of one of tiktoken's encodings (cl100k_base,
/// o200k_base, r50k_base, p50k_base).
Outcome<TokenizerSpec> read_tiktoken(std::string_view content, std::string_view settings,
                                     const std::string& name);
/// Returns whether `content` starts like a tiktoken list.
bool is_tiktoken(std::string_view content);

/// Finds the token of each byte, for byte-level vocabularies. Returns what is wrong; empty on
/// success.
std::string find_bytes(TokenizerSpec& spec);

/// Converts the printable spelling of a byte-level token to bytes. Returns false if it contains a
/// character that represents no byte.
bool bytes_of_spelling(std::string_view spelling, std::string& bytes);

/// Append the steps of BERT's normalization and of its splitting.
void add_bert_steps(bool clean, bool ideographs, bool strip_accents, bool lowercase,
                    TokenizerSpec& out);
void add_bert_splitting(TokenizerSpec& out);
/// Returns the text of a word piece, with a space before it unless it continues a word. With `tidy`
/// there is no space before punctuation and contractions, as in Hugging Face's clean-up.
std::string word_piece_surface(std::string_view name, std::string_view continuation, bool tidy);

}  // namespace llmc::hosted

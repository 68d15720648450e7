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

/// What tokenizer files say, as plain data, before tables are made of it; and their readers.
namespace llmc::hosted {

/// One token of a vocabulary.
struct SpecToken {
  std::string name;     // what models look up
  std::string surface;  // what it adds to a text
  double score = 0;     // unigram
  std::uint32_t flags = 0;
  bool in_model = true;  // the model can give it out for ordinary text
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

/// A split at the matches of a regular expression. `flags`: SplitFlag.
inline SpecStep split_step(std::string_view expression, SplitBehavior behavior,
                           std::uint32_t flags = 0) {
  return step_of(Pretokenizer::kPattern, static_cast<std::uint32_t>(behavior) << 8 | flags,
                 std::string(expression));
}

struct SpecAdded {
  std::string text;
  std::int32_t id = 0;
  std::uint32_t flags = 0;  // AddedFlag
  bool normalized = false;  // looked for in normalized text
};

struct SpecMerge {
  std::uint32_t left, right, result;
};

struct TokenizerSpec {
  Settings settings;
  std::vector<SpecToken> tokens;
  std::vector<SpecToken> extras;       // nodes that are no tokens; score: the token, or -1
  std::vector<std::int32_t> reads_as;  // empty: each token as itself
  std::vector<std::pair<SpecMerge, std::uint32_t>> merges;  // with their ranks
  std::vector<SpecAdded> added;
  std::vector<SpecStep> normalizers, pretokenizers;
  std::vector<std::int32_t> byte_tokens;  // 256, or none
  std::string continuation;
  SpecialIds ids;
};

/// The tables of a tokenizer, whole and checked. LLMC_ERROR_FORMAT when what `spec` says makes
/// none; `name` stands for the file in messages.
Outcome<std::vector<std::byte>> make_tables(const TokenizerSpec& spec, const std::string& name);

/// A tokenizer that owns its tables.
Outcome<std::unique_ptr<Tokenizer>> make_tokenizer(const TokenizerSpec& spec,
                                                   const std::string& name);

// ---- Readers ----

/// The vocabulary of sentencepiece: a .model's, or a tokenizer.txt's.
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
struct PieceVocabulary {
  std::vector<Piece> pieces;
  bool unigram = false;  // else BPE
  std::string charsmap;  // compiled replacement rules
  std::uint32_t rules = kAddSpace | kRemoveExtraSpaces | kEscapeSpaces;  // SentencePieceFlag
  std::string unknown_surface = " \xE2\x81\x87 ";  // what an unknown token reads as
  SpecialIds ids;
};
Outcome<TokenizerSpec> spec_of_pieces(PieceVocabulary vocabulary, const std::string& name);

/// Byte-level BPE where a token's id is its rank; control tokens are `ids.special`. `pattern`: the
/// regular expression that text is split with.
Outcome<TokenizerSpec> spec_of_ranks(std::vector<std::string> tokens, SpecialIds ids,
                                     std::string_view pattern, const std::string& name);

/// The content of the files beside a tokenizer's that say more of it; empty: there is none.
struct FilesBeside {
  std::string config = {};    // tokenizer_config.json
  std::string added = {};     // added_tokens.json
  std::string special = {};   // special_tokens_map.json
  std::string encoding = {};  // NAME.tiktoken.json of a NAME.tiktoken
};

/// A sentencepiece .model file (a ModelProto message), with the tokens that were added to it.
Outcome<TokenizerSpec> read_sentencepiece_model(std::string_view content, const FilesBeside& beside,
                                                const std::string& name);

/// MNN's tokenizer.txt. Type 0 says nothing of algorithm and normalization: scores that are all
/// whole numbers are merge ranks, thus BPE, others are log probabilities, thus unigram; text is
/// normalized as Llama's is (a space in front, nothing replaced, nothing removed). Types 1 and 3 do
/// not name their pattern: text is split and normalized as Qwen's. Type 2 is BERT's word pieces,
/// of small letters when no token has a capital.
Outcome<TokenizerSpec> read_tokenizer_text(std::string_view content, const std::string& name);
/// Whether `content` starts as a tokenizer.txt does.
bool is_tokenizer_text(std::string_view content);

/// Hugging Face's tokenizer.json. Parts that would have to be approximated are refused by name.
/// What stands beside it may add tokens, and says which begin and end a text (config_files.h).
Outcome<TokenizerSpec> read_tokenizer_json(std::string_view content, const FilesBeside& beside,
                                           const std::string& name);

/// tiktoken's list of `BASE64 RANK` lines. `settings`: JSON that names the pattern and the special
/// tokens, {"pattern": "llama3", "special": {"<|eot|>": 5}, "prefix": ["…"], "stop": ["…"]}; empty:
/// the file's own name must be an encoding of tiktoken's (cl100k_base, o200k_base, r50k_base,
/// p50k_base).
Outcome<TokenizerSpec> read_tiktoken(std::string_view content, std::string_view settings,
                                     const std::string& name);
/// Whether `content` starts as such a list does.
bool is_tiktoken(std::string_view content);

/// Byte-level vocabularies: finds the token of each byte. What is wrong, or empty.
std::string find_bytes(TokenizerSpec& spec);

/// Bytes that a byte-level token's printable spelling stands for; false when another character
/// stands there.
bool bytes_of_spelling(std::string_view spelling, std::string& bytes);

/// The steps of BERT's normalization and splitting.
void add_bert_steps(bool clean, bool ideographs, bool strip_accents, bool lowercase,
                    TokenizerSpec& out);
void add_bert_splitting(TokenizerSpec& out);
/// What a word piece adds to a text: a space in front, or nothing when it continues a word. `tidy`:
/// no space in front of punctuation and of shortened words, as Hugging Face's clean-up.
std::string word_piece_surface(std::string_view name, std::string_view continuation, bool tidy);

}  // namespace llmc::hosted

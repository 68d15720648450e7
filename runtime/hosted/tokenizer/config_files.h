#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/hosted/tokenizer/json_parts.h"
#include "runtime/hosted/tokenizer/problem.h"
#include "runtime/hosted/tokenizer/spec.h"

/// Reads the files next to a tokenizer.json or a tokenizer.model: which tokens were added to the
/// vocabulary after training, which of them begin and end a text, and whether these are inserted.
namespace llmc::hosted {

struct TokenizerConfig {
  struct Token {
    std::string text;
    std::int32_t id = 0;
    bool special = false, left_strip = false, right_strip = false, single_word = false;
    bool normalized = false;
    const char* file = "";  // the file that defines it
  };
  std::vector<Token> added;              // in order of ids
  std::string bos, eos;                  // their spellings; empty: not specified
  std::optional<bool> add_bos, add_eos;  // nullopt: as in the tokenizer file
};

/// Follows Hugging Face's tokenizers. Without added_tokens_decoder in tokenizer_config.json,
/// added_tokens.json is used, and special_tokens_map.json takes precedence in naming tokens.
/// Otherwise special_tokens_map.json is only used for what tokenizer_config.json does not name.
Problem read_config_files(const SiblingFiles& files, TokenizerConfig& config);

/// Adds the tokens to those listed in a tokenizer.json. Returns a problem if they contradict each
/// other.
Problem add_config_tokens(const TokenizerConfig& config, Json& tokenizer);
/// Same for a sentencepiece vocabulary, before and after its conversion to a spec.
Problem add_config_tokens(const TokenizerConfig& config, PieceVocabulary& vocabulary);
void mark_config_tokens(const TokenizerConfig& config, TokenizerSpec& spec);

/// Sets the ids that begin and end a text.
Problem set_ends(const TokenizerConfig& config, TokenizerSpec& spec);

}  // namespace llmc::hosted

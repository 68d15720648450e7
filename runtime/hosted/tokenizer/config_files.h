#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/hosted/tokenizer/json_parts.h"
#include "runtime/hosted/tokenizer/problem.h"
#include "runtime/hosted/tokenizer/spec.h"

/// Reads the files next to a tokenizer.json or a tokenizer.model. They define which tokens were
/// added to the vocabulary after training, which tokens begin and end a text, and whether these are
/// added to a text.
namespace llmc::hosted {

struct TokenizerConfig {
  struct Token {
    std::string text;
    std::int32_t id = 0;
    bool special = false, left_strip = false, right_strip = false, single_word = false;
    bool normalized = false;
    const char* file = "";  // name of the file that defines it
  };
  std::vector<Token> added;              // in order of ids
  std::string bos, eos;                  // spellings of these tokens; empty: not specified
  std::optional<bool> add_bos, add_eos;  // nullopt: see the tokenizer file
};

/// Reads the files into `config`, with the precedence of Hugging Face's transformers. If
/// tokenizer_config.json has added_tokens_decoder, special_tokens_map.json is used only for tokens
/// that tokenizer_config.json does not name. Otherwise added_tokens.json is read, and
/// special_tokens_map.json takes precedence in naming tokens.
Problem read_config_files(const SiblingFiles& files, TokenizerConfig& config);

/// Adds the tokens to the list in a tokenizer.json. Returns a problem if they contradict the file.
Problem add_config_tokens(const TokenizerConfig& config, Json& tokenizer);
/// Adds the tokens to a sentencepiece vocabulary before it becomes a spec; mark_config_tokens()
/// sets their flags in the spec afterwards. Returns a problem if they contradict the vocabulary.
Problem add_config_tokens(const TokenizerConfig& config, PieceVocabulary& vocabulary);
void mark_config_tokens(const TokenizerConfig& config, TokenizerSpec& spec);

/// Sets the ids that begin and end a text in the spec, and adds the token `eos` to its stop ids.
/// Returns a problem if a token that must be added to a text does not exist.
Problem set_ends(const TokenizerConfig& config, TokenizerSpec& spec);

}  // namespace llmc::hosted

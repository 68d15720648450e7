#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/hosted/tokenizer/json_parts.h"
#include "runtime/hosted/tokenizer/problem.h"
#include "runtime/hosted/tokenizer/spec.h"

/// The files beside a tokenizer.json or a tokenizer.model that say more of it: which tokens were
/// added to the vocabulary since it was trained, which of them begin and end a text, and whether
/// these are put there.
namespace llmc::hosted {

struct TokenizerConfig {
  struct Token {
    std::string text;
    std::int32_t id = 0;
    bool special = false, left_strip = false, right_strip = false, single_word = false;
    bool normalized = false;
    const char* file = "";  // that says so
  };
  std::vector<Token> added;              // in the order of their ids
  std::string bos, eos;                  // how they are spelled; empty: not said
  std::optional<bool> add_bos, add_eos;  // nullopt: as the tokenizer itself says
};

/// As Hugging Face's tokenizers read them. Where tokenizer_config.json has no added_tokens_decoder,
/// added_tokens.json counts, and special_tokens_map.json names tokens before it; where it has one,
/// special_tokens_map.json counts for what it does not name.
Problem read_config_files(const FilesBeside& files, TokenizerConfig& config);

/// Adds the tokens to those that a tokenizer.json lists. A problem where the two contradict each
/// other.
Problem add_config_tokens(const TokenizerConfig& config, Json& tokenizer);
/// The same to a vocabulary of sentencepiece, before and after it is made a spec of.
Problem add_config_tokens(const TokenizerConfig& config, PieceVocabulary& vocabulary);
void mark_config_tokens(const TokenizerConfig& config, TokenizerSpec& spec);

/// Which ids begin and end a text.
Problem set_ends(const TokenizerConfig& config, TokenizerSpec& spec);

}  // namespace llmc::hosted

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace llmc::hosted::grammar {

/// What a grammar needs to know of a tokenizer.
struct Vocabulary {
  std::vector<std::string> tokens;  // by id, the bytes a token adds to a text; of those that are no
                                    // text (control tokens, those that end a text) nothing
  std::vector<std::uint32_t> stops;  // ids that end a text, sorted, each once
};

/// Names the tokens' bytes: llmc_grammar_header.vocabulary_hash.
std::uint64_t vocabulary_hash(const Vocabulary& vocabulary);

/// The tokens' bytes as the tables hold them: offsets[tokens + 1], and the text, zeros behind it up
/// to a multiple of 4.
struct TokenText {
  std::vector<std::uint32_t> offsets;
  std::string text;
};
TokenText token_text(const Vocabulary& vocabulary);

/// Tokens by their bytes. Nodes are in preorder: those below a node follow it up to `end`.
struct TokenTree {
  struct Node {
    std::uint8_t byte = 0;
    std::uint16_t depth = 0;  // bytes up to here; 0: the root
    std::uint32_t parent = 0;
    std::uint32_t end = 0;
    std::uint32_t first_token = 0, past_token = 0;  // of `tokens`: those whose bytes end here
  };
  std::vector<Node> nodes;  // [0] is the root
  std::vector<std::uint32_t> tokens;
};
/// Tokens without bytes are not in it. Tokens have at most 65535 bytes; longer ones are left out.
TokenTree token_tree(const Vocabulary& vocabulary);

}  // namespace llmc::hosted::grammar

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace llmc::hosted::grammar {

/// The tokens of a model, as tables of grammars need them.
struct Vocabulary {
  std::vector<std::string> tokens;  // by id: bytes that a token adds to the text; empty for control
                                    // tokens and stop tokens
  std::vector<std::uint32_t> stops;  // ids that end a text, sorted, without duplicates
};

/// Returns llmc_grammar_header.vocabulary_hash, a hash of the tokens' bytes.
std::uint64_t vocabulary_hash(const Vocabulary& vocabulary);

/// The tokens' bytes in the format of the tables: offsets[tokens + 1], and the text with zeros up
/// to a multiple of 4 bytes.
struct TokenText {
  std::vector<std::uint32_t> offsets;
  std::string text;
};
TokenText token_text(const Vocabulary& vocabulary);

/// Prefix tree of the tokens' bytes. Nodes are in preorder: the descendants of a node follow it up
/// to `end`.
struct TokenTree {
  struct Node {
    std::uint8_t byte = 0;
    std::uint16_t depth = 0;  // bytes from the root; 0: the root itself
    std::uint32_t parent = 0;
    std::uint32_t end = 0;
    std::uint32_t first_token = 0, past_token = 0;  // range of `tokens` that end here
  };
  std::vector<Node> nodes;  // nodes[0] is the root
  std::vector<std::uint32_t> tokens;
};
/// Leaves out tokens without bytes and those of more than 65535 bytes.
TokenTree token_tree(const Vocabulary& vocabulary);

}  // namespace llmc::hosted::grammar

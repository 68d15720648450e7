#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace llmc::hosted::grammar {

/// The tokens of a model in the form that grammar tables need.
struct Vocabulary {
  /// By id: bytes that a token adds to the text; empty for control tokens and stop tokens.
  std::vector<std::string> tokens;
  std::vector<std::uint32_t> stops;  // ids that end a text, sorted, without duplicates
};

/// Returns llmc_grammar_header.vocabulary_hash, a hash of the tokens' bytes.
std::uint64_t vocabulary_hash(const Vocabulary& vocabulary);

/// The bytes of the tokens in the format of the tables: offsets[tokens + 1], and the text, padded
/// with zeros to a multiple of 4 bytes. Tokens of more than 65535 bytes are empty.
struct TokenText {
  std::vector<std::uint32_t> offsets;
  std::string text;
};
TokenText token_text(const Vocabulary& vocabulary);

/// Prefix tree of the tokens' bytes. Nodes are in preorder: the descendants of node i are the
/// nodes i + 1 to end - 1.
struct TokenTree {
  struct Node {
    std::uint8_t byte = 0;
    std::uint16_t depth = 0;  // number of bytes from the root; 0: the root
    std::uint32_t parent = 0;
    std::uint32_t end = 0;
    /// Range in `tokens` of the tokens that end at this node.
    std::uint32_t first_token = 0, past_token = 0;
  };
  std::vector<Node> nodes;  // nodes[0] is the root
  std::vector<std::uint32_t> tokens;
};
/// Returns the tree of a vocabulary, without tokens of 0 bytes or more than 65535 bytes.
TokenTree token_tree(const Vocabulary& vocabulary);

}  // namespace llmc::hosted::grammar

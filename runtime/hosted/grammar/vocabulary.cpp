#include "runtime/hosted/grammar/vocabulary.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "llmc/grammar.h"

namespace llmc::hosted::grammar {
namespace {

constexpr std::size_t kLongestToken = 65535;

}  // namespace

TokenText token_text(const Vocabulary& vocabulary) {
  TokenText result;
  result.offsets.push_back(0);
  for (const std::string& token : vocabulary.tokens) {
    if (token.size() <= kLongestToken) result.text += token;
    result.offsets.push_back(static_cast<std::uint32_t>(result.text.size()));
  }
  result.text.resize((result.text.size() + 3) / 4 * 4);
  return result;
}

std::uint64_t vocabulary_hash(const Vocabulary& vocabulary) {
  const TokenText bytes = token_text(vocabulary);
  std::vector<std::uint32_t> words(bytes.text.size() / 4);
  if (!words.empty()) std::memcpy(words.data(), bytes.text.data(), bytes.text.size());
  const std::uint64_t hash =
      llmc_grammar_hash(LLMC_GRAMMAR_HASH_START, bytes.offsets.data(), bytes.offsets.size());
  return llmc_grammar_hash(hash, words.data(), words.size());
}

TokenTree token_tree(const Vocabulary& vocabulary) {
  TokenTree tree;
  std::vector<std::uint32_t>& order = tree.tokens;
  for (std::uint32_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& token = vocabulary.tokens[id];
    if (!token.empty() && token.size() <= kLongestToken) order.push_back(id);
  }
  // Sort by unsigned bytes, then by ids.
  std::ranges::sort(order, {}, [&](std::uint32_t id) {
    return std::pair<std::string_view, std::uint32_t>(vocabulary.tokens[id], id);
  });
  tree.nodes.emplace_back();
  std::vector<std::uint32_t> path{0};  // nodes of the previous token, from the root
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    const std::string_view token = vocabulary.tokens[order[i]];
    std::size_t shared = 0;
    while (shared < token.size() && shared + 1 < path.size() &&
           tree.nodes[path[shared + 1]].byte == static_cast<std::uint8_t>(token[shared]))
      ++shared;
    for (; path.size() > shared + 1; path.pop_back())
      tree.nodes[path.back()].end = static_cast<std::uint32_t>(tree.nodes.size());
    for (std::size_t depth = shared; depth < token.size(); ++depth) {
      TokenTree::Node node;
      node.byte = static_cast<std::uint8_t>(token[depth]);
      node.depth = static_cast<std::uint16_t>(depth + 1);
      node.parent = path.back();
      node.first_token = node.past_token = i;
      path.push_back(static_cast<std::uint32_t>(tree.nodes.size()));
      tree.nodes.push_back(node);
    }
    tree.nodes[path.back()].past_token = i + 1;
  }
  for (const std::uint32_t node : path)
    tree.nodes[node].end = static_cast<std::uint32_t>(tree.nodes.size());
  return tree;
}

}  // namespace llmc::hosted::grammar

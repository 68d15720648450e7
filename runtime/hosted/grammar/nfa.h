#pragma once

#include <cstdint>
#include <vector>

#include "runtime/hosted/grammar/grammar.h"

namespace llmc::hosted::grammar {

/// Properties of the rules, by rule.
struct RuleFacts {
  std::vector<bool> nullable;  // matches the empty text
  std::vector<bool> called;    // has its own automaton, as every recursive rule has; the
                               // others are copied to each place of use
};

/// A nondeterministic automaton of one rule.
struct Nfa {
  static constexpr std::uint32_t kCall = 256;  // label kCall + r: calls rule r
  struct Arc {
    std::uint32_t low = 0, high = 0;  // bytes, inclusive; or one call
    std::uint32_t target = 0;
  };
  struct Node {
    std::vector<Arc> arcs;
    std::vector<std::uint32_t> jumps;  // taken without reading input
  };
  std::vector<Node> nodes;
  std::uint32_t start = 0, end = 0;
};

/// Returns an upper bound of the nodes that build_nfa makes for `expr`, at most kTooLarge. A called
/// rule counts as one node, others as sizes[rule].
inline constexpr std::uint64_t kTooLarge = std::uint64_t{1} << 40;
std::uint64_t nfa_size(const Expr& expr, const RuleFacts& facts,
                       const std::vector<std::uint64_t>& sizes);

Nfa build_nfa(const Grammar& grammar, const RuleFacts& facts, std::uint32_t rule);

}  // namespace llmc::hosted::grammar

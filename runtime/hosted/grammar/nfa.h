#pragma once

#include <cstdint>
#include <vector>

#include "runtime/hosted/grammar/grammar.h"

namespace llmc::hosted::grammar {

/// Properties of the rules of a grammar, by rule.
struct RuleFacts {
  std::vector<bool> nullable;  // whether the rule matches the empty text
  /// Whether the rule has its own automaton, like the root and every recursive rule; the other
  /// rules are copied to each place of use.
  std::vector<bool> called;
};

/// The nondeterministic automaton of one rule.
struct Nfa {
  static constexpr std::uint32_t kCall = 256;  // label kCall + r is a call of rule r
  struct Arc {
    std::uint32_t low = 0, high = 0;  // bytes, both ends included, or one call
    std::uint32_t target = 0;
  };
  struct Node {
    std::vector<Arc> arcs;
    std::vector<std::uint32_t> jumps;  // targets that are reached without reading input
  };
  std::vector<Node> nodes;
  std::uint32_t start = 0, end = 0;
};

inline constexpr std::uint64_t kTooLarge = std::uint64_t{1} << 40;
/// Returns an upper bound of the number of nodes that build_nfa() creates for `expr`, at most
/// kTooLarge. A rule with its own automaton counts as one node, another rule as sizes[rule] nodes.
std::uint64_t nfa_size(const Expr& expr, const RuleFacts& facts,
                       const std::vector<std::uint64_t>& sizes);

Nfa build_nfa(const Grammar& grammar, const RuleFacts& facts, std::uint32_t rule);

}  // namespace llmc::hosted::grammar

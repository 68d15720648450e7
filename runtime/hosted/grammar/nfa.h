#pragma once

#include <cstdint>
#include <vector>

#include "runtime/hosted/grammar/grammar.h"

namespace llmc::hosted::grammar {

/// What is known of every rule before automata are built.
struct RuleFacts {
  std::vector<bool> nullable;  // matches the empty text
  std::vector<bool> called;    // has an automaton of its own, as all rules that contain themselves
                               // do; the others are copied where they are used
};

/// A nondeterministic automaton of one rule.
struct Nfa {
  static constexpr std::uint32_t kCall = 256;  // labels from here on: rule + kCall is called
  struct Arc {
    std::uint32_t low = 0, high = 0;  // bytes, both included; or one call
    std::uint32_t target = 0;
  };
  struct Node {
    std::vector<Arc> arcs;
    std::vector<std::uint32_t> jumps;  // taken without reading anything
  };
  std::vector<Node> nodes;
  std::uint32_t start = 0, end = 0;
};

/// Nodes that build_nfa makes for `expr`, at most: rules that are called count as one, others as
/// `sizes` says. Never more than kTooLarge.
inline constexpr std::uint64_t kTooLarge = std::uint64_t{1} << 40;
std::uint64_t nfa_size(const Expr& expr, const RuleFacts& facts,
                       const std::vector<std::uint64_t>& sizes);

Nfa build_nfa(const Grammar& grammar, const RuleFacts& facts, std::uint32_t rule);

}  // namespace llmc::hosted::grammar

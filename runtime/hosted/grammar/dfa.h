#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/hosted/grammar/nfa.h"

namespace llmc::hosted::grammar {

/// The smallest deterministic automaton of a rule. Every state can be reached from the start and
/// reaches an end; no states at all when nothing matches.
struct Dfa {
  struct Edge {
    std::uint32_t low = 0, high = 0;  // as of Nfa::Arc; the edges of a state do not overlap
    std::uint32_t target = 0;
  };
  struct State {
    std::vector<Edge> edges;  // sorted by `low`
    bool accepts = false;
  };
  std::vector<State> states;
  std::uint32_t start = 0;
};

/// nullopt with more than `most_states` on the way, or more than `most_members` nodes in the sets
/// that they stand for. Calls are symbols like bytes.
std::optional<Dfa> determinize(const Nfa& nfa, std::size_t max_states, std::size_t max_members);

/// Joins states that nothing tells apart; drops those that do not matter (A. Valmari, "Fast brief
/// practical DFA minimization", 2012).
Dfa minimized(const Dfa& dfa);

}  // namespace llmc::hosted::grammar

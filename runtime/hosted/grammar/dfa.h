#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/hosted/grammar/nfa.h"

namespace llmc::hosted::grammar {

/// The deterministic automaton of one rule.
struct Dfa {
  struct Edge {
    std::uint32_t low = 0, high = 0;  // as in Nfa::Arc; edges of a state do not overlap
    std::uint32_t target = 0;
  };
  struct State {
    std::vector<Edge> edges;  // sorted by `low`
    bool accepts = false;
  };
  std::vector<State> states;
  std::uint32_t start = 0;
};

/// Builds the deterministic automaton by the subset construction; calls are symbols, like bytes.
/// Returns nullopt if it would have more than `max_states` states, or if their subsets would have
/// more than `max_members` nodes in total.
std::optional<Dfa> determinize(const Nfa& nfa, std::size_t max_states, std::size_t max_members);

/// Returns the minimal automaton, in which every state is reachable and can reach an accepting
/// state. It has no states if nothing matches. Algorithm: A. Valmari, "Fast brief practical DFA
/// minimization", 2012.
Dfa minimized(const Dfa& dfa);

}  // namespace llmc::hosted::grammar

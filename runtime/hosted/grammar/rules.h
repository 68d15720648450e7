#pragma once

#include "runtime/hosted/grammar/nfa.h"

namespace llmc::hosted::grammar {

/// Decides which rules have their own automaton. Throws if every choice would give automata with
/// more than `max_nodes` nodes in total.
RuleFacts analyze_rules(const Grammar& grammar, std::size_t max_nodes);

}  // namespace llmc::hosted::grammar

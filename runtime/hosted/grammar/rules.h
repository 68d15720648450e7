#pragma once

#include "runtime/hosted/grammar/nfa.h"

namespace llmc::hosted::grammar {

/// Decides which rules have their own automaton. Throws if the automata would have more than
/// `max_nodes` nodes with any choice.
RuleFacts analyze_rules(const Grammar& grammar, std::size_t max_nodes);

}  // namespace llmc::hosted::grammar

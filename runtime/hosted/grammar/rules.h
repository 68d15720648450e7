#pragma once

#include "runtime/hosted/grammar/nfa.h"

namespace llmc::hosted::grammar {

/// Which rules are empty, recursive, and worth an automaton of their own. Throws when the
/// automata would have more than `most_nodes` nodes however rules are shared.
RuleFacts analyze_rules(const Grammar& grammar, std::size_t max_nodes);

}  // namespace llmc::hosted::grammar

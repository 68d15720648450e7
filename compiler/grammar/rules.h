#pragma once

#include "compiler/grammar/nfa.h"
#include "compiler/support/result.h"

namespace llmc::grammar {

/// Which rules are empty, recursive, and worth an automaton of their own. kUnsupported when the
/// automata would have more than `most_nodes` nodes however rules are shared.
Result<RuleFacts> examine_rules(const Grammar& grammar, std::size_t most_nodes);

}  // namespace llmc::grammar

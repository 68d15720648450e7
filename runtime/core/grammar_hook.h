#pragma once

#include "history.h"
#include "llmc/llmc.h"
#include "llmc/model.h"

namespace llmc::core {

/// Connects a sequence to its grammar. Uses function pointers, so that programs without grammars do
/// not link that code. All fields are zero without a grammar.
struct GrammarHook {
  llmc_grammar* grammar;
  uint32_t from;   // position of the first token of the text
  uint32_t words;  // size of the masks in 32-bit words
  /// Consumes the tokens up to the end of the history. Returns the errors of
  /// GrammarMatcher::accept, or LLMC_ERROR_POSITION if the history ends before the text begins, as
  /// after a rewind.
  llmc_status (*follow)(const GrammarHook& hook, const TokenHistory& history);
  /// Implements TokenFilter::allow. `grammar` is the llmc_grammar.
  void (*allow)(void* grammar, uint32_t* mask);
  int (*text_state)(const llmc_grammar* grammar);
};

/// Creates the hook of a grammar for a model, and restarts the grammar at position `from`. Fails
/// with LLMC_ERROR_GRAMMAR_TABLES if the grammar was made for a larger vocabulary or, if the
/// model's vocabulary hash is known, for different tokens.
llmc_status make_grammar_hook(llmc_grammar* grammar, const llmc_model& model, uint32_t from,
                              GrammarHook* hook);

}  // namespace llmc::core

#pragma once

#include "history.h"
#include "llmc/llmc.h"
#include "llmc/model.h"

namespace llmc::core {

/// How a sequence is held to a grammar. Functions, so that programs that use none need not link
/// them. All zero: no grammar.
struct GrammarHook {
  llmc_grammar* grammar;
  uint32_t from;   // the text begins with the token at this position
  uint32_t words;  // of the masks
  /// Brings the grammar to the end of the history; errors of GrammarMatcher::accept.
  /// LLMC_ERROR_POSITION: the history ends before the text begins, after a rewind.
  llmc_status (*follow)(const GrammarHook& hook, const TokenHistory& history);
  /// For TokenFilter; `grammar` is the llmc_grammar.
  void (*allow)(void* grammar, uint32_t* mask);
  int (*text_state)(const llmc_grammar* grammar);
};

/// Of a grammar for a model; LLMC_ERROR_GRAMMAR_TABLES when it was made for another vocabulary: a
/// larger one, or, where the model's is known, of other tokens.
llmc_status make_grammar_hook(llmc_grammar* grammar, const llmc_model& model, uint32_t from,
                              GrammarHook* hook);

}  // namespace llmc::core

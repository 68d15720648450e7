#include "message.h"
#include "session.h"

using llmc::core::GrammarHook;
using llmc::core::ReentrancyGuard;
using llmc::core::Sequence;

// A separate source file, so that programs without a grammar do not link these functions.
extern "C" {

llmc_status llmc_set_grammar(llmc_session* session, llmc_grammar* grammar) {
  if (session == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  Sequence& sequence = session->selected();
  if (grammar == nullptr) {
    sequence.constraints.grammar = GrammarHook{};
    return LLMC_OK;
  }
  const llmc_status bad = llmc::core::make_grammar_hook(
      grammar, *session->model, sequence.cached.position, &sequence.constraints.grammar);
  if (bad != LLMC_OK) {
    llmc::core::Message()
        .text("the grammar was made for the vocabulary of another model")
        .send(session->config, LLMC_LOG_ERROR);
  }
  return bad;
}

llmc_status llmc_text_state(llmc_session* session, int* state) {
  if (session == nullptr || state == nullptr) return LLMC_ERROR_ARGUMENT;
  if (session->busy) return LLMC_ERROR_BUSY;
  Sequence& sequence = session->selected();
  const GrammarHook& hook = sequence.constraints.grammar;
  if (hook.grammar == nullptr || sequence.cached.position < hook.from) {
    *state = hook.grammar == nullptr ? LLMC_GRAMMAR_MAY_END : LLMC_GRAMMAR_INCOMPLETE;
    return LLMC_OK;
  }
  const ReentrancyGuard guard(*session);
  const llmc_status bad = hook.follow(hook, session->cache.history(sequence.cached));
  if (bad == LLMC_OK) *state = hook.text_state(hook.grammar);
  return bad;
}

}  // extern "C"

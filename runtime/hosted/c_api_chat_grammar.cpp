// A separate source file, so that programs without a grammar do not link these functions.
#include "runtime/hosted/chat_c_api.h"

extern "C" llmc_status llmc_chat_set_grammar(llmc_chat* chat, llmc_grammar* grammar) {
  if (chat == nullptr) return LLMC_ERROR_ARGUMENT;
  if (chat->answering) return LLMC_ERROR_BUSY;
  return chat->sequence.constrain_to(grammar, {llmc_set_grammar, llmc_text_state});
}

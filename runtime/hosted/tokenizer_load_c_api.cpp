#include "runtime/hosted/tokenizer_c_api.h"

using namespace llmc::hosted;

// A separate source file, so that only programs that load files link the readers of all formats.
extern "C" llmc_status llmc_tokenizer_load(const char* path, llmc_tokenizer** tokenizer,
                                           char* message, size_t message_bytes) {
  copy_message("", message, message_bytes);
  if (path == nullptr || tokenizer == nullptr) return LLMC_ERROR_ARGUMENT;
  *tokenizer = nullptr;
  return guarded(
      [&] { return hand_out_tokenizer(Tokenizer::load(path), tokenizer, message, message_bytes); });
}

// Implements llmc_sampling_load of hosted.h.
#include "runtime/hosted/chat/description.h"
#include "runtime/hosted/tokenizer_c_api.h"

using namespace llmc::hosted;

extern "C" llmc_status llmc_sampling_load(const char* path, llmc_sampling* sampling, char* message,
                                          size_t message_bytes) {
  if (message != nullptr) copy_message("", message, message_bytes);
  if (path == nullptr || sampling == nullptr) return LLMC_ERROR_ARGUMENT;
  return guarded([&]() -> llmc_status {
    const auto description = load_chat_description(path);
    if (!description) {
      copy_message(description.failure().message, message, message_bytes);
      return description.failure().status;
    }
    for (const SamplingValue& value : description->sampling) set(value, *sampling);
    return LLMC_OK;
  });
}

// A separate source file, so that programs that do not save conversations do not link these
// functions.
#include "runtime/hosted/chat_c_api.h"
#include "runtime/hosted/guarded.h"

using namespace llmc::hosted;

namespace {

constexpr LinkedSequence::StateCalls kStateCalls{llmc_state_bytes, llmc_state_save,
                                                 llmc_state_load};

}  // namespace

extern "C" {

llmc_status llmc_chat_save(llmc_chat* chat, const char** json, size_t* bytes, const void** cache,
                           size_t* cache_bytes) {
  if (chat == nullptr || json == nullptr || (cache == nullptr) != (cache_bytes == nullptr))
    return LLMC_ERROR_ARGUMENT;
  *json = "";
  if (bytes != nullptr) *bytes = 0;
  if (cache != nullptr) {
    *cache = nullptr;
    *cache_bytes = 0;
  }
  if (chat->answering) return LLMC_ERROR_BUSY;
  return guarded([&]() -> llmc_status {
    chat->message.clear();
    chat->sequence.use(kStateCalls);
    chat->saved_cache.clear();
    if (cache != nullptr) {
      auto state = chat->conversation.save_cache();
      if (!state) return chat->fail(state.failure());
      chat->saved_cache = *std::move(state);
      *cache = chat->saved_cache.data();
      *cache_bytes = chat->saved_cache.size();
    }
    chat->saved = chat->conversation.save(cache != nullptr ? "cache" : "", chat->saved_cache);
    *json = chat->saved.c_str();
    if (bytes != nullptr) *bytes = chat->saved.size();
    return LLMC_OK;
  });
}

llmc_status llmc_chat_load(llmc_chat* chat, const char* json, size_t bytes, const void* cache,
                           size_t cache_bytes) {
  if (chat == nullptr || json == nullptr || (cache == nullptr && cache_bytes > 0))
    return LLMC_ERROR_ARGUMENT;
  if (chat->answering) return LLMC_ERROR_BUSY;
  return guarded([&]() -> llmc_status {
    chat->message.clear();
    chat->sequence.use(kStateCalls);
    const std::string_view text(json, bytes);
    if (const auto bad = chat->conversation.load(text, "the conversation")) return chat->fail(*bad);
    chat->text.clear();
    if (cache == nullptr) return LLMC_OK;
    const std::string_view state(static_cast<const char*>(cache), cache_bytes);
    if (const auto bad = chat->conversation.load_cache(text, state)) return chat->fail(*bad);
    return LLMC_OK;
  });
}

}  // extern "C"

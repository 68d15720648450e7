// Implements the conversations of hosted.h. A separate source file, so that a program that uses
// only tokenizers does not need the session functions when it is linked.
#include <atomic>
#include <cstring>
#include <optional>

#include "runtime/hosted/chat_c_api.h"
#include "runtime/hosted/guarded.h"
#include "runtime/hosted/tokenizer/utf8.h"
#include "runtime/hosted/tokenizer_c_api.h"

using namespace llmc::hosted;

namespace {

static_assert(std::atomic<bool>::is_always_lock_free);  // because signal handlers set it

}  // namespace

extern "C" {

llmc_status llmc_chat_create(llmc_session* session, const llmc_tokenizer* tokenizer,
                             const char* path, llmc_chat** chat, char* message,
                             size_t message_bytes) {
  copy_message("", message, message_bytes);
  if (session == nullptr || tokenizer == nullptr || chat == nullptr) return LLMC_ERROR_ARGUMENT;
  *chat = nullptr;
  return guarded([&]() -> llmc_status {
    const auto fail = [&](const Failure& failure) {
      copy_message(failure.message, message, message_bytes);
      return failure.status;
    };
    ChatDescription description;
    if (path != nullptr) {
      auto loaded = load_chat_description(path);
      if (!loaded) return fail(loaded.failure());
      description = *std::move(loaded);
    }
    // Detect a session that contains exactly the compiled-in system message.
    std::vector<std::int32_t> begun;
    std::string system = std::move(description.system_message);
    if (llmc_position(session) != llmc_prompt_size(session)) system.clear();
    if (!system.empty()) begun.resize(llmc_prompt_size(session));
    if (const llmc_status bad = llmc_tokens(session, 0, begun.data(), begun.size())) return bad;
    auto format = ChatFormat::create(std::move(description), *tokenizer->tokenizer);
    if (!format) return fail(format.failure());
    *chat = new llmc_chat(session, *std::move(format), std::move(begun));
    (*chat)->conversation.set_system(std::move(system));
    return LLMC_OK;
  });
}

void llmc_chat_free(llmc_chat* chat) {
  delete chat;
}

llmc_status llmc_chat_add(llmc_chat* chat, const char* role, const char* text, size_t bytes) {
  if (chat == nullptr || (text == nullptr && bytes > 0)) return LLMC_ERROR_ARGUMENT;
  const std::string_view who = role != nullptr ? role : "user";
  if (who != "system" && who != "user" && who != "assistant") return LLMC_ERROR_ARGUMENT;
  if (chat->answering) return LLMC_ERROR_BUSY;
  return guarded([&] {
    chat->conversation.add(std::string(who), std::string(text == nullptr ? "" : text, bytes));
    return LLMC_OK;
  });
}

llmc_status llmc_chat_answer(llmc_chat* chat, const llmc_chat_options* options,
                             llmc_chat_result* result) {
  if (result != nullptr) *result = {};
  if (chat == nullptr) return LLMC_ERROR_ARGUMENT;
  // The size identifies the version of the caller's header; the first version has this size.
  if (options != nullptr && options->size < sizeof(llmc_chat_options)) return LLMC_ERROR_VERSION;
  if (options != nullptr && options->stop == nullptr && options->stop_count > 0)
    return LLMC_ERROR_ARGUMENT;
  if (chat->answering) return LLMC_ERROR_BUSY;
  chat->answering = true;
  const llmc_status status = guarded([&]() -> llmc_status {
    chat->message.clear();
    chat->text.clear();
    AnswerOptions wanted;
    wanted.cancel = &chat->cancel;
    if (options != nullptr) {
      wanted.max_tokens = options->max_tokens;
      wanted.forgets_oldest = options->forget_oldest != 0;
      for (size_t i = 0; i < options->stop_count; ++i) {
        if (options->stop[i] == nullptr || !is_utf8(options->stop[i])) return LLMC_ERROR_ARGUMENT;
        wanted.stop_texts.emplace_back(options->stop[i]);
      }
      if (options->text != nullptr) {
        wanted.on_text = [options](std::string_view piece) {
          const std::string terminated(piece);
          return options->text(options->user, terminated.c_str(), terminated.size()) == 0;
        };
      }
    }
    const auto answer = chat->conversation.answer(wanted);
    chat->cancel.store(false, std::memory_order_relaxed);
    if (!answer) return chat->fail(answer.failure());
    chat->text = answer->text;
    if (result != nullptr) {
      result->why = static_cast<llmc_stopped>(answer->why);
      result->begun = answer->begun;
      result->tokens = answer->tokens;
      result->prompt_tokens = answer->prompt_tokens;
      result->kept_tokens = answer->kept_tokens;
      result->forgotten = answer->forgotten;
      result->prompt_seconds = answer->prompt_seconds;
      result->seconds = answer->seconds;
    }
    return LLMC_OK;
  });
  chat->answering = false;
  return status;
}

const char* llmc_chat_message(const llmc_chat* chat) {
  return chat == nullptr ? "" : chat->message.c_str();
}

const char* llmc_chat_text(const llmc_chat* chat, size_t* bytes) {
  if (bytes != nullptr) *bytes = chat == nullptr ? 0 : chat->text.size();
  return chat == nullptr ? "" : chat->text.c_str();
}

void llmc_chat_cancel(llmc_chat* chat) {
  if (chat != nullptr) chat->cancel.store(true, std::memory_order_relaxed);
}

llmc_status llmc_chat_drop_last(llmc_chat* chat) {
  if (chat == nullptr) return LLMC_ERROR_ARGUMENT;
  if (chat->answering) return LLMC_ERROR_BUSY;
  chat->conversation.drop_last();
  return LLMC_OK;
}

llmc_status llmc_chat_reset(llmc_chat* chat) {
  if (chat == nullptr) return LLMC_ERROR_ARGUMENT;
  if (chat->answering) return LLMC_ERROR_BUSY;
  return guarded([&] {
    chat->message.clear();
    chat->text.clear();
    return chat->conversation.reset();
  });
}

}  // extern "C"

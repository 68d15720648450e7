#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "llmc/hosted.h"
#include "runtime/hosted/chat/conversation.h"
#include "runtime/hosted/linked_sequence.h"

/// Implementation of llmc_chat, shared by several source files.
struct llmc_chat {
  llmc_chat(llmc_session* session, llmc::hosted::ChatFormat made, std::vector<std::int32_t> begun)
      : sequence(session),
        format(std::move(made)),
        conversation(sequence, format, std::move(begun)) {}

  llmc_status fail(const llmc::hosted::Failure& failure) {
    message = failure.message;
    return failure.status;
  }

  llmc::hosted::LinkedSequence sequence;
  llmc::hosted::ChatFormat format;
  llmc::hosted::Conversation conversation;
  std::atomic<bool> cancel = false;
  /// Whether an answer is in progress; the callback must not change the conversation.
  bool answering = false;
  std::string message, text;
  std::string saved, saved_cache;  // results of llmc_chat_save
};

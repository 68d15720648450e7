#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "llmc/model.h"
#include "runtime/hosted/chat/conversation.h"
#include "tests/runtime/hosted/chat_tokenizer.h"

namespace llmc::hosted {

/// Returns scripted tokens, and checks that only those are requested.
class Script final : public Sequence {
 public:
  llmc_status append(std::span<const std::int32_t> ids) override {
    if (fail_append != LLMC_OK && appends_until_failure == 0) return fail_append;
    if (fail_append != LLMC_OK) --appends_until_failure;
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    appended += ids.size();
    has_logits = true;
    return LLMC_OK;
  }
  llmc_status sample(std::int32_t& token) override {
    EXPECT_TRUE(has_logits);
    token = kTurnEnd;
    if (at_ < reply.size()) {
      const auto byte = static_cast<unsigned char>(reply[at_++]);
      token = byte == '$' ? kTurnBegin : byte;
    }
    return LLMC_OK;
  }
  llmc_status rewind(std::size_t position) override {
    EXPECT_LE(position, tokens.size());
    has_logits = has_logits && position == tokens.size();
    tokens.resize(position);
    return LLMC_OK;
  }
  llmc_status reset() override {
    tokens = begun;
    has_logits = !begun.empty();
    ++resets;
    return LLMC_OK;
  }
  /// As llmc_state_save: a header, then the ids.
  llmc_status save_state(std::string& state) override {
    if (refuses_states) return LLMC_ERROR_STATE_MODEL;
    state.assign(sizeof(llmc_state_header) + tokens.size() * sizeof tokens[0], '\0');
    std::memcpy(state.data() + sizeof(llmc_state_header), tokens.data(),
                tokens.size() * sizeof tokens[0]);
    return LLMC_OK;
  }
  llmc_status load_state(std::string_view state) override {
    if (refuses_states) return LLMC_ERROR_STATE_MODEL;
    tokens.resize((state.size() - sizeof(llmc_state_header)) / sizeof tokens[0]);
    std::memcpy(tokens.data(), state.data() + sizeof(llmc_state_header),
                tokens.size() * sizeof tokens[0]);
    has_logits = true;
    return LLMC_OK;
  }
  llmc_status begin_text() override {
    text_begins.push_back(tokens.size());
    return LLMC_OK;
  }
  std::size_t position() const override { return tokens.size(); }
  std::size_t context() const override { return room; }
  std::size_t chunk() const override { return 4; }
  std::size_t vocabulary() const override { return kByteVocabulary; }

  void say(std::string text) {
    reply = std::move(text);
    at_ = 0;
    appended = 0;
  }

  std::vector<std::int32_t> tokens, begun;
  std::vector<std::size_t> text_begins;  // where begin_text was called
  std::size_t resets = 0;
  std::string reply;
  std::size_t appended = 0, room = 500;
  llmc_status fail_append = LLMC_OK;
  std::size_t appends_until_failure = 0;
  bool has_logits = false, refuses_states = false;

 private:
  std::size_t at_ = 0;
};

inline AnswerOptions at_most(std::size_t tokens) {
  AnswerOptions options;
  options.max_tokens = tokens;
  return options;
}

class ConversationTest : public ::testing::Test {
 protected:
  /// `begun`: what the sequence begins with, as text.
  void use(const std::string& jinja, const std::string& begun = {}) {
    ChatDescription description;
    description.jinja = jinja;
    auto made = ChatFormat::create(std::move(description), *tokenizer);
    ASSERT_TRUE(made.ok()) << made.failure().message;
    format.emplace(*std::move(made));
    script.begun = tokenizer->encode(begun, {.add_prefix = false, .parse_special = true});
    script.tokens = script.begun;
    conversation.emplace(script, *format, script.begun);
  }
  Answer ask(const std::string& text, const std::string& reply, AnswerOptions options = {}) {
    script.say(reply);
    if (!text.empty()) conversation->add("user", text);
    auto answer = conversation->answer(options);
    EXPECT_TRUE(answer.ok()) << (answer.ok() ? "" : answer.failure().message);
    EXPECT_EQ(conversation->tokens(), script.tokens.size());
    return answer.ok() ? *std::move(answer) : Answer{};
  }
  std::string cached() const { return shown(*tokenizer, script.tokens); }

  std::unique_ptr<Tokenizer> tokenizer = byte_tokenizer();
  Script script;
  std::optional<ChatFormat> format;
  std::optional<Conversation> conversation;
};

}  // namespace llmc::hosted

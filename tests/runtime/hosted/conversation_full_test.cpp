// What a conversation does when its context is full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/hosted/conversation_fixture.h"

namespace llmc::hosted {
namespace {

TEST_F(ConversationTest, AFullContextIsSaidAndChangesNothing) {
  use(kChatMl);
  script.room = 60;
  const Answer cut = ask("Hi", std::string(100, 'a'));
  EXPECT_EQ(cut.why, Stopped::kContext);
  EXPECT_EQ(script.tokens.size(), 60u);
  const auto tokens = script.tokens;
  conversation->add("user", "more");
  const auto refused = conversation->answer({});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().status, LLMC_ERROR_CONTEXT_FULL);
  EXPECT_EQ(script.tokens, tokens);
  EXPECT_EQ(conversation->messages().size(), 3u);
  EXPECT_EQ(conversation->reset(), LLMC_OK);
  EXPECT_TRUE(script.tokens.empty());
  EXPECT_EQ(ask("Hi", "Ho").text, "Ho");
}

TEST_F(ConversationTest, AFullContextForgetsTheOldestTurns) {
  use("{% for m in messages %}{{ m.role[0] }}{{ m.content }}<|im_end|>{% endfor %}a");
  script.room = 60;
  conversation->set_system("Be kind.");
  AnswerOptions options;
  options.forgets_oldest = true;
  EXPECT_EQ(ask("first", std::string(8, '1'), options).forgotten, 0u);
  EXPECT_EQ(ask("second", std::string(8, '2'), options).forgotten, 0u);
  // In the middle of an answer: its beginning stays, and goes on behind what is left of the rest.
  std::string streamed;
  options.on_text = [&](std::string_view text) { return streamed += text, true; };
  const Answer third = ask("third", "abcdefghijklmnopqrstuvwxyz", options);
  EXPECT_EQ(third.why, Stopped::kStopToken);
  EXPECT_EQ(third.text, "abcdefghijklmnopqrstuvwxyz");
  EXPECT_EQ(streamed, third.text);
  EXPECT_EQ(third.forgotten, 4u);
  EXPECT_EQ(cached(), "sBe kind.<|im_end|>uthird<|im_end|>aabcdefghijklmnopqrstuvwxyz");
  ASSERT_EQ(conversation->messages().size(), 3u);
  EXPECT_EQ(conversation->messages()[1].content, "third");
  // Before an answer: what does not fit at all.
  const Answer fourth = ask(std::string(30, '4'), "ok", options);
  EXPECT_EQ(fourth.forgotten, 2u);
  EXPECT_EQ(cached(), "sBe kind.<|im_end|>u" + std::string(30, '4') + "<|im_end|>aok");
  EXPECT_EQ(fourth.kept_tokens, std::string_view("sBe kind.!u").size());
}

TEST_F(ConversationTest, TheLastTurnIsNeverForgotten) {
  use(kChatMl);
  script.room = 60;
  AnswerOptions options;
  options.forgets_oldest = true;
  const Answer cut = ask("Hi", std::string(100, 'a'), options);
  EXPECT_EQ(cut.why, Stopped::kContext);
  EXPECT_EQ(cut.forgotten, 0u);
  EXPECT_EQ(script.tokens.size(), 60u);
  conversation->add("user", std::string(70, 'b'));
  const auto refused = conversation->answer(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().status, LLMC_ERROR_CONTEXT_FULL);
  EXPECT_EQ(conversation->messages().size(), 3u);
  conversation->drop_last();
  EXPECT_EQ(ask("So?", "Yes", options).forgotten, 2u);
}

TEST_F(ConversationTest, WhatFailsOrIsCancelledWhileRoomIsMadeLosesNoMessage) {
  use(kChatMl);
  script.room = 120;
  ask("Hi", "Ho");
  AnswerOptions options;
  options.forgets_oldest = true;
  std::size_t given = 0;
  options.on_text = [&](std::string_view) {
    if (script.tokens.size() + 1 >= script.room) script.fail_append = LLMC_ERROR_FLOAT_MODE;
    return ++given > 0;
  };
  script.say(std::string(100, 'a'));
  conversation->add("user", "So?");
  const auto failed = conversation->answer(options);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.failure().status, LLMC_ERROR_FLOAT_MODE);
  EXPECT_EQ(conversation->messages().size(), 3u);
  EXPECT_EQ(conversation->tokens(), script.tokens.size());
  script.fail_append = LLMC_OK;
  std::atomic<bool> cancel = false;
  options.cancel = &cancel;
  options.on_text = [&](std::string_view) {
    cancel = script.tokens.size() == script.room;
    return true;
  };
  script.say(std::string(100, 'a'));
  const auto cancelled = conversation->answer(options);
  ASSERT_TRUE(cancelled.ok());
  EXPECT_EQ(cancelled->why, Stopped::kCancelled);
  EXPECT_EQ(cancelled->forgotten, 0u);
  EXPECT_EQ(conversation->tokens(), script.tokens.size());
  cancel = false;
  options.on_text = nullptr;
  EXPECT_GT(ask("More?", "Yes", options).forgotten, 0u);
}

}  // namespace
}  // namespace llmc::hosted

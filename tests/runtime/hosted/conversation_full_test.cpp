// What a conversation does when its context is full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/hosted/conversation_fixture.h"
#include "tests/support/load.h"

namespace llmc::hosted {
namespace {

using ::testing::HasSubstr;

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
  // During an answer: its start is kept and continues after the rest of the conversation.
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

TEST_F(ConversationTest, AnAnswerBeginsAgainBehindWhatIsLeft) {
  // What holds texts to a form has to know where this one begins.
  use("{% for m in messages %}{{ m.role[0] }}{{ m.content }}<|im_end|>{% endfor %}a");
  script.room = 60;
  AnswerOptions options;
  options.forgets_oldest = true;
  for (const char* text : {"one", "two", "three"}) ask(text, "12345678", options);
  script.text_begins.clear();
  const Answer last = ask("four", std::string(40, 'x'), options);
  EXPECT_EQ(last.text, std::string(40, 'x'));
  EXPECT_EQ(cached(), "ufour<|im_end|>a" + last.text);
  // First after all of it, then after the remaining part each time that tokens are dropped.
  const std::size_t left = std::string_view("ufour!a").size();
  ASSERT_GE(script.text_begins.size(), 3u) << "once for half of the room, once for the last turn";
  EXPECT_GT(script.text_begins[0], script.text_begins[1]);
  EXPECT_EQ(script.text_begins.back(), left);
}

TEST_F(ConversationTest, WhatWasCompiledInStaysWhenTheOldestIsForgotten) {
  const std::string begun = "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n";
  use(kChatMl, begun);
  conversation->set_system("Be kind.");
  script.room = 150;
  AnswerOptions options;
  options.forgets_oldest = true;
  std::size_t forgotten = 0;
  for (int i = 0; i < 6; ++i) {
    const Answer answer = ask("Say it " + std::to_string(i), "12345678", options);
    EXPECT_GE(answer.prompt_tokens + answer.kept_tokens, script.begun.size());
    forgotten += answer.forgotten;
    EXPECT_EQ(cached().substr(0, begun.size()), begun);
  }
  EXPECT_GT(forgotten, 0u);
  EXPECT_EQ(forgotten % 2, 0u) << "whole turns";
}

TEST_F(ConversationTest, TextWithoutATemplateForgetsItsBeginning) {
  use("");
  script.room = 20;
  AnswerOptions options;
  options.forgets_oldest = true;
  ask("abcdefgh", "ij", at_most(2));
  const Answer answer = ask("klmn", "opqrstuvwxyz", options);
  EXPECT_EQ(answer.text, "opqrstuvwxyz");
  EXPECT_GT(answer.forgotten, 0u);
  EXPECT_THAT(cached(), ::testing::EndsWith("klmnopqrstuvwxyz"));
}

TEST_F(ConversationTest, ThousandsOfTurnsAreForgottenQuickly) {
  use(kChatMl);
  script.room = 200;
  const std::size_t turns = tests::load(20000);
  for (std::size_t i = 0; i < turns; ++i) {
    conversation->add("user", "question");
    conversation->add("assistant", "answer");
  }
  AnswerOptions options;
  options.forgets_oldest = true;
  const Answer answer = ask("So?", "Yes", options);
  EXPECT_EQ(answer.text, "Yes");
  EXPECT_GT(answer.forgotten, 2 * turns - 1000);
  EXPECT_THAT(cached(), HasSubstr("assistant\nanswer<|im_end|>\n<|im_start|>user\nSo?"));
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
  options.on_text = [&](std::string_view) {
    if (script.tokens.size() == script.room) script.fail_append = LLMC_ERROR_FLOAT_MODE;
    return true;
  };
  conversation->add("user", "So?");
  // At the first token that is run again; later in the prompt; in what there is of the answer.
  for (const std::size_t appends : {0u, 2u, 8u, 12u}) {
    script.appends_until_failure = appends;
    script.say(std::string(100, 'a'));
    const auto failed = conversation->answer(options);
    ASSERT_FALSE(failed.ok()) << appends;
    EXPECT_EQ(failed.failure().status, LLMC_ERROR_FLOAT_MODE);
    EXPECT_EQ(conversation->messages().size(), 3u);
    EXPECT_EQ(conversation->tokens(), script.tokens.size());
    EXPECT_LT(script.tokens.size(), script.room) << "room was being made";
    script.fail_append = LLMC_OK;
  }
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

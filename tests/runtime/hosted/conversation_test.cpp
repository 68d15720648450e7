#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "llmc/model.h"
#include "runtime/hosted/tokenizer/tables.h"
#include "tests/runtime/hosted/conversation_fixture.h"

namespace llmc::hosted {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(ConversationTest, OnlyNewTokensAreRun) {
  use(kChatMl);
  const Answer first = ask("Hi", "Ho");
  EXPECT_EQ(first.text, "Ho");
  EXPECT_EQ(first.why, Stopped::kStopToken);
  EXPECT_EQ(first.tokens, 2u);
  EXPECT_EQ(first.kept_tokens, 0u);
  EXPECT_EQ(cached(), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHo");
  const std::size_t before = script.tokens.size();
  const Answer second = ask("So?", "Yes");
  EXPECT_EQ(second.kept_tokens, before);
  EXPECT_EQ(cached(),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHo<|im_end|>\n"
            "<|im_start|>user\nSo?<|im_end|>\n<|im_start|>assistant\nYes");
  EXPECT_EQ(script.appended, script.tokens.size() - before) << "nothing was run twice";
  EXPECT_EQ(conversation->messages().back().ending, "<|im_end|>");
}

TEST_F(ConversationTest, WhatWasCompiledInIsNotRun) {
  const std::string begun = "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n";
  use(kChatMl, begun);
  conversation->set_system("Be kind.");
  const std::size_t size = script.begun.size();
  EXPECT_EQ(conversation->tokens(), size);
  const Answer first = ask("Hi", "Ho");
  EXPECT_EQ(first.kept_tokens, size);
  const std::string text = begun + "Hi<|im_end|>\n<|im_start|>assistant\nHo";
  EXPECT_EQ(cached(), text);
  EXPECT_EQ(script.appended, script.tokens.size() - size);
  // Another system message shares what stands before it; the one that was compiled in comes back.
  conversation->set_system("Be brief.");
  EXPECT_EQ(ask("So?", "Yes").kept_tokens, std::string_view("!system\nBe ").size());
  EXPECT_EQ(script.resets, 0u);
  conversation->set_system("Be kind.");
  conversation->drop_last();
  conversation->drop_last();
  EXPECT_EQ(ask("So?", "No").kept_tokens, size);
  EXPECT_EQ(script.resets, 1u);
  ASSERT_EQ(conversation->reset(), LLMC_OK);
  EXPECT_EQ(cached(), begun);
  EXPECT_EQ(conversation->messages().size(), 1u);
  EXPECT_EQ(ask("Hi", "Ho").kept_tokens, size);
  EXPECT_EQ(cached(), text);
}

TEST_F(ConversationTest, ATemplateThatRewritesEarlierTurnsRewindsTheCache) {
  // Thoughts of earlier answers are left out, as many reasoning models' templates do.
  use("{% for m in messages %}<|im_start|>{{ m.content.split('</t>')[-1] }}<|im_end|>{% endfor %}");
  ask("Hi", "hm</t>Ho");
  EXPECT_EQ(cached(), "<|im_start|>Hi<|im_end|>hm</t>Ho");
  const Answer second = ask("So?", "Yes");
  EXPECT_EQ(cached(),
            "<|im_start|>Hi<|im_end|><|im_start|>Ho<|im_end|><|im_start|>So?<|im_end|>Yes");
  EXPECT_EQ(second.kept_tokens, 4u) << "<|im_start|>, H, i, <|im_end|>";
}

TEST_F(ConversationTest, AStopTextIsNoPartOfTheAnswer) {
  use(kChatMl);
  std::string streamed;
  AnswerOptions options;
  options.stop_texts = {"\nuser:"};
  options.on_text = [&](std::string_view text) { return streamed += text, true; };
  const Answer answer = ask("Hi", "Ho\nuser: me", options);
  EXPECT_EQ(answer.why, Stopped::kStopText);
  EXPECT_EQ(answer.text, "Ho");
  EXPECT_EQ(streamed, "Ho");
  ask("So?", "Yes");
  EXPECT_THAT(cached(), HasSubstr("assistant\nHo<|im_end|>\n<|im_start|>user\nSo?"))
      << "what was cut off left the cache, too";
}

TEST_F(ConversationTest, LimitsAndTheCallbackEndAnAnswer) {
  use(kChatMl);
  const Answer limited = ask("Hi", "abcdef", at_most(3));
  EXPECT_EQ(limited.why, Stopped::kLength);
  EXPECT_EQ(limited.text, "abc");
  EXPECT_EQ(conversation->messages().back().ending, "");
  int pieces = 0;
  AnswerOptions options;
  options.on_text = [&](std::string_view) { return ++pieces < 2; };
  const Answer called = ask("More", "abcdef", options);
  EXPECT_EQ(called.why, Stopped::kCaller);
  EXPECT_EQ(called.text, "ab");
}

TEST_F(ConversationTest, PartsOfCharactersAreHeldBack) {
  use(kChatMl);
  std::vector<std::string> pieces;
  AnswerOptions options;
  options.on_text = [&](std::string_view text) { return pieces.emplace_back(text), true; };
  EXPECT_EQ(ask("Hi", "é!", options).text, "é!");
  EXPECT_THAT(pieces, ElementsAre("é", "!"));
  EXPECT_EQ(ask("Hi", "xé", at_most(2)).text, "x\xEF\xBF\xBD");
  ask("So?", "Yes");
  EXPECT_THAT(cached(), HasSubstr("x\xEF\xBF\xBD<|im_end|>")) << "the text as it was shown";
}

TEST_F(ConversationTest, CancellingKeepsWhatWasSaidAndTheSequenceUsable) {
  use(kChatMl);
  std::atomic<bool> cancel = false;
  AnswerOptions options;
  options.cancel = &cancel;
  options.on_text = [&](std::string_view text) {
    if (text == "c") cancel = true;
    return true;
  };
  const Answer cut = ask("Hi", "abcdef", options);
  EXPECT_EQ(cut.why, Stopped::kCancelled);
  EXPECT_TRUE(cut.begun);
  EXPECT_EQ(cut.text, "abc");
  // Set before the messages are run: nothing begins, and no answer is added.
  script.say("x");
  conversation->add("user", "So?");
  const auto none = conversation->answer(options);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->begun);
  EXPECT_EQ(conversation->messages().back().role, "user");
  conversation->drop_last();
  cancel = false;
  EXPECT_EQ(ask("Now?", "Yes").text, "Yes");
  EXPECT_THAT(cached(), HasSubstr("assistant\nabc<|im_end|>\n<|im_start|>user\nNow?"));
}

TEST_F(ConversationTest, AFailureOfTheSessionAddsNoAnswer) {
  use(kChatMl);
  ask("Hi", "Ho");
  script.fail_append = LLMC_ERROR_FLOAT_MODE;
  conversation->add("user", "So?");
  const auto failed = conversation->answer({});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.failure().status, LLMC_ERROR_FLOAT_MODE);
  EXPECT_EQ(conversation->messages().size(), 3u);
  script.fail_append = LLMC_OK;
  script.say("Yes");
  const auto again = conversation->answer({});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->text, "Yes");
  EXPECT_EQ(conversation->tokens(), script.tokens.size());
}

TEST_F(ConversationTest, PlainTextGoesOnAndBeginsAnewBehindItsEnd) {
  use("");
  EXPECT_EQ(ask("Once", " upon", at_most(5)).why, Stopped::kLength);
  EXPECT_EQ(cached(), "<s>Once upo") << "the last token's successor was not wanted";
  script.say(" a time");
  const auto on = conversation->answer({});  // an empty message continues
  ASSERT_TRUE(on.ok());
  EXPECT_EQ(on->text, " a time");
  EXPECT_EQ(cached(), "<s>Once upon a time");
  ask("New", " story");
  EXPECT_EQ(cached(), "<s>New story");
}

TEST_F(ConversationTest, WithNothingNewTheLastTokenIsRunAgain) {
  use("");
  ask("ab", "cd", at_most(2));
  conversation->drop_last();
  script.say("x");
  const auto again = conversation->answer({});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->prompt_tokens, 1u);
  EXPECT_EQ(cached(), "<s>abx");
}

TEST_F(ConversationTest, SystemPromptsComeAndGo) {
  use(kChatMl);
  conversation->set_system("Be brief.");
  ask("Hi", "Ho");
  EXPECT_THAT(cached(), ::testing::StartsWith("<|im_start|>system\nBe brief.<|im_end|>"));
  conversation->set_system("Be long.");
  EXPECT_EQ(conversation->messages().size(), 3u);
  EXPECT_EQ(conversation->reset(), LLMC_OK);
  EXPECT_EQ(conversation->messages().size(), 1u);
  conversation->set_system("");
  EXPECT_TRUE(conversation->messages().empty());
}

TEST_F(ConversationTest, SavedConversationsGoOn) {
  use(kChatMl);
  conversation->set_system("S");
  ask("Hi é", "Ho");
  const std::string saved = conversation->save();
  ask("So?", "Yes");
  const std::string whole = cached();
  Script other_script;
  Conversation other(other_script, *format);
  ASSERT_FALSE(other.load(saved, "f").has_value());
  other.add("user", "So?");
  other_script.say("Yes");
  ASSERT_TRUE(other.answer({}).ok());
  EXPECT_EQ(shown(*tokenizer, other_script.tokens), whole);
}

TEST_F(ConversationTest, ASavedCacheIsNotRunAgain) {
  use(kChatMl);
  ask("Hi", "Ho");
  const auto cache = conversation->save_cache();
  ASSERT_TRUE(cache.ok());
  const std::string saved = conversation->save("c.cache", *cache);
  EXPECT_EQ(Conversation::cache_name(saved), "c.cache");
  EXPECT_EQ(Conversation::cache_name(conversation->save()), "");
  EXPECT_EQ(Conversation::cache_name("no JSON"), "");
  const std::size_t tokens = conversation->tokens();
  Script other_script;
  Conversation other(other_script, *format);
  ASSERT_FALSE(other.load(saved, "f").has_value());
  ASSERT_FALSE(other.load_cache(saved, *cache).has_value());
  EXPECT_EQ(other.tokens(), tokens);
  other.add("user", "So?");
  other_script.say("Yes");
  const auto answer = other.answer({});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->kept_tokens, tokens);
  ask("So?", "Yes");
  EXPECT_EQ(shown(*tokenizer, other_script.tokens), cached());
  // Of another time, damaged, or refused by the sequence: nothing changes.
  const auto later = conversation->save_cache();
  ASSERT_TRUE(later.ok());
  const auto before = other_script.tokens;
  EXPECT_THAT(other.load_cache(saved, *later)->message, HasSubstr("not saved together"));
  EXPECT_TRUE(other.load_cache(conversation->save(), *later).has_value());
  script.refuses_states = other_script.refuses_states = true;
  EXPECT_EQ(other.load_cache(saved, *cache)->status, LLMC_ERROR_STATE_MODEL);
  EXPECT_FALSE(conversation->save_cache().ok());
  EXPECT_EQ(other_script.tokens, before);
  EXPECT_EQ(other.tokens(), before.size());
}

TEST_F(ConversationTest, ASavedAnswersTokensAreThoseThatWereSaved) {
  use(kChatMl);
  ask("Hi", "Ho");
  const auto cache = conversation->save_cache();
  ASSERT_TRUE(cache.ok());
  const auto saved = nlohmann::ordered_json::parse(conversation->save("c", *cache));
  const auto before = script.tokens;
  const auto refusal = [&](const char* key, const nlohmann::json& value, bool hashed) {
    auto json = saved;
    json["cache"]["last"][key] = value;
    const auto digits = [](std::string_view text) {
      char out[17];
      std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(table_hash(text)));
      return std::string(out);
    };
    if (hashed) json["cache"]["hash"] = digits(digits(*cache) + json["cache"]["last"].dump());
    const auto failure = conversation->load_cache(json.dump(), *cache);
    EXPECT_EQ(script.tokens, before);
    return failure ? failure->message : "none";
  };
  EXPECT_EQ(refusal("tokens", {1, kByteVocabulary - 1}, true), "none");
  EXPECT_THAT(refusal("tokens", {1, 2}, false), HasSubstr("not saved together"));
  EXPECT_THAT(refusal("text", "other", false), HasSubstr("not saved together"));
  EXPECT_THAT(refusal("tokens", {1, kByteVocabulary}, true), HasSubstr("damaged"));
  EXPECT_THAT(refusal("tokens", nlohmann::json::array(), true), HasSubstr("damaged"));
  EXPECT_THAT(refusal("text", "", true), HasSubstr("damaged"));
}

TEST_F(ConversationTest, DamagedSavesAreRefusedAndChangeNothing) {
  use(kChatMl);
  ask("Hi", "Ho");
  const std::string before = conversation->save();
  for (const char* text :
       {"", "null", "{}", "{\"llmc_conversation\": 1}",
        "{\"llmc_conversation\": 2, \"messages\": []}",
        "{\"llmc_conversation\": 1, \"messages\": {}}",
        "{\"llmc_conversation\": 1, \"messages\": [1]}",
        "{\"llmc_conversation\": 1, \"messages\": [{\"role\": \"user\"}]}",
        "{\"llmc_conversation\": 1, \"messages\": [{\"role\": \"user\", \"content\": 3}]}",
        "{\"llmc_conversation\": 1, \"messages\": [{\"role\": \"tool\", \"content\": \"x\"}]}"}) {
    const auto failure = conversation->load(text, "file");
    ASSERT_TRUE(failure.has_value()) << text;
    EXPECT_THAT(failure->message, ::testing::StartsWith("file: "));
    EXPECT_EQ(conversation->save(), before);
  }
}

}  // namespace
}  // namespace llmc::hosted

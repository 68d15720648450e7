#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "llmc/hosted.h"
#include "runtime/hosted/chat/conversation.h"
#include "tests/runtime/core/compiled_prompt.h"
#include "tests/runtime/hosted/chat_tokenizer.h"
#include "tests/support/load.h"

namespace llmc::hosted {
namespace {

namespace fs = std::filesystem;

/// A file that goes away with it.
struct TextFile {
  TextFile(const std::string& name, const std::string& content)
      : path((fs::temp_directory_path() / (std::to_string(getpid()) + name)).string()) {
    std::ofstream(path, std::ios::binary) << content;
  }
  ~TextFile() { fs::remove(path); }
  std::string path;
};

/// As many tokens as the fake model has: two control tokens and letters with a blank before them.
std::string small_vocabulary() {
  std::string text = "430 0\n3 1 1\n0 1 2 2 1\n50\n";
  text += base64("<unk>") + " 0.0 2\n" + base64("<s>") + " 0.0 3\n" + base64("</s>") + " 0.0 3\n";
  text += base64("\xE2\x96\x81") + " -1.0 1\n";
  for (char c = 'A'; c < 'A' + 46; ++c) text += base64(std::string(1, c)) + " -2.0 1\n";
  return text;
}

class ChatCTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const TextFile file("tokenizer.txt", small_vocabulary());
    char message[200];
    ASSERT_EQ(llmc_tokenizer_load(file.path.c_str(), &tokenizer, message, sizeof message), LLMC_OK)
        << message;
    ASSERT_EQ(llmc_chat_create(session, tokenizer, nullptr, &chat, message, sizeof message),
              LLMC_OK)
        << message;
    options.size = sizeof options;
  }
  void TearDown() override {
    llmc_chat_free(chat);
    llmc_tokenizer_free(tokenizer);
  }
  llmc_status say(const char* text) {
    return llmc_chat_add(chat, nullptr, text, std::strlen(text));
  }

  fake::Session session;
  llmc_tokenizer* tokenizer = nullptr;
  llmc_chat* chat = nullptr;
  llmc_chat_options options{};
  llmc_chat_result result{};
};

TEST_F(ChatCTest, AnswersComeInPiecesAndWhole) {
  ASSERT_EQ(say("ABC"), LLMC_OK);
  std::string streamed;
  options.max_tokens = 9;
  options.user = &streamed;
  options.text = [](void* user, const char* text, size_t bytes) {
    EXPECT_EQ(std::strlen(text), bytes);
    *static_cast<std::string*>(user) += text;
    return 0;
  };
  ASSERT_EQ(llmc_chat_answer(chat, &options, &result), LLMC_OK) << llmc_chat_message(chat);
  size_t bytes = 0;
  EXPECT_EQ(streamed, llmc_chat_text(chat, &bytes));
  EXPECT_EQ(bytes, streamed.size());
  EXPECT_TRUE(result.begun);
  EXPECT_EQ(result.kept_tokens, 0u);
  EXPECT_GT(result.prompt_tokens, 3u);
  if (result.why == LLMC_STOPPED_LENGTH) EXPECT_EQ(result.tokens, 9u);
  ASSERT_EQ(llmc_chat_reset(chat), LLMC_OK);
  EXPECT_EQ(llmc_position(session), 0u);
  EXPECT_STREQ(llmc_chat_text(chat, nullptr), "");
  ASSERT_EQ(say("ABC"), LLMC_OK);
  ASSERT_EQ(llmc_chat_answer(chat, &options, nullptr), LLMC_OK);
  EXPECT_EQ(streamed.substr(0, bytes), llmc_chat_text(chat, nullptr)) << "the same again";
}

TEST_F(ChatCTest, AnotherThreadCancels) {
  ASSERT_EQ(say("ABC"), LLMC_OK);
  llmc_chat_cancel(chat);  // before it begins
  ASSERT_EQ(llmc_chat_answer(chat, nullptr, &result), LLMC_OK);
  EXPECT_EQ(result.why, LLMC_STOPPED_CANCELLED);
  EXPECT_FALSE(result.begun);
  options.user = chat;
  options.text = [](void* user, const char*, size_t) {
    std::thread([user] { llmc_chat_cancel(static_cast<llmc_chat*>(user)); }).join();
    return 0;
  };
  ASSERT_EQ(llmc_chat_answer(chat, &options, &result), LLMC_OK);
  EXPECT_TRUE(result.begun) << "the flag was taken with the answer before";
  EXPECT_EQ(result.why, LLMC_STOPPED_CANCELLED);
  EXPECT_GE(result.tokens, 1u);
}

TEST_F(ChatCTest, StopTextsAndCallbacksEndAnswers) {
  ASSERT_EQ(say("ABC"), LLMC_OK);
  options.max_tokens = 12;
  ASSERT_EQ(llmc_chat_answer(chat, &options, &result), LLMC_OK);
  const std::string whole = llmc_chat_text(chat, nullptr);
  ASSERT_GE(whole.size(), 4u);
  ASSERT_EQ(llmc_chat_drop_last(chat), LLMC_OK);
  const std::string stop_text = whole.substr(2, 2);
  const char* const stop[] = {stop_text.c_str()};
  options.stop = stop;
  options.stop_count = 1;
  ASSERT_EQ(llmc_chat_answer(chat, &options, &result), LLMC_OK);
  EXPECT_EQ(result.why, LLMC_STOPPED_TEXT);
  EXPECT_EQ(llmc_chat_text(chat, nullptr), whole.substr(0, whole.find(stop_text)));
  ASSERT_EQ(llmc_chat_drop_last(chat), LLMC_OK);
  options.stop_count = 0;
  options.text = [](void*, const char*, size_t) { return 1; };
  ASSERT_EQ(llmc_chat_answer(chat, &options, &result), LLMC_OK);
  EXPECT_EQ(result.why, LLMC_STOPPED_CALLBACK);
}

TEST_F(ChatCTest, ASavedConversationGoesOnWithoutRunningItAgain) {
  ASSERT_EQ(say("ABC"), LLMC_OK);
  options.max_tokens = 5;
  ASSERT_EQ(llmc_chat_answer(chat, &options, nullptr), LLMC_OK);
  const char* json = nullptr;
  const void* cache = nullptr;
  size_t bytes = 0, cache_bytes = 0;
  ASSERT_EQ(llmc_chat_save(chat, &json, &bytes, &cache, &cache_bytes), LLMC_OK);
  EXPECT_EQ(std::strlen(json), bytes);
  const std::string text(json, bytes), state(static_cast<const char*>(cache), cache_bytes);
  const auto goes_on = [&](llmc_chat* with) {
    EXPECT_EQ(llmc_chat_add(with, nullptr, "D", 1), LLMC_OK);
    EXPECT_EQ(llmc_chat_answer(with, &options, &result), LLMC_OK) << llmc_chat_message(with);
    return std::string(llmc_chat_text(with, nullptr));
  };
  const std::string expected = goes_on(chat);
  const size_t kept = result.kept_tokens, run = result.prompt_tokens;
  EXPECT_GT(kept, 0u);

  const fake::Session other_session;
  llmc_chat* other = nullptr;
  ASSERT_EQ(llmc_chat_create(other_session, tokenizer, nullptr, &other, nullptr, 0), LLMC_OK);
  ASSERT_EQ(llmc_chat_load(other, text.data(), text.size(), state.data(), state.size()), LLMC_OK)
      << llmc_chat_message(other);
  EXPECT_EQ(goes_on(other), expected);
  EXPECT_EQ(result.kept_tokens, kept);
  EXPECT_EQ(result.prompt_tokens, run);
  // Without the cache, or with a damaged one, all of it is run.
  for (const bool damaged : {false, true}) {
    std::string damage = state;
    damage.back() = static_cast<char>(damage.back() ^ 1);
    ASSERT_EQ(llmc_chat_reset(other), LLMC_OK);
    EXPECT_EQ(llmc_chat_load(other, text.data(), text.size(), damaged ? damage.data() : nullptr,
                             damaged ? damage.size() : 0),
              damaged ? LLMC_ERROR_STATE : LLMC_OK);
    EXPECT_EQ(*llmc_chat_message(other) != 0, damaged);
    EXPECT_EQ(goes_on(other), expected);
    EXPECT_EQ(result.kept_tokens, 0u);
  }
  EXPECT_EQ(llmc_chat_load(other, "{}", 2, nullptr, 0), LLMC_ERROR_FORMAT);
  EXPECT_STRNE(llmc_chat_message(other), "");
  EXPECT_EQ(llmc_chat_load(other, nullptr, 0, nullptr, 0), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_chat_save(other, nullptr, nullptr, nullptr, nullptr), LLMC_ERROR_ARGUMENT);
  ASSERT_EQ(llmc_chat_save(other, &json, nullptr, nullptr, nullptr), LLMC_OK);
  EXPECT_EQ(std::string(json).find("\"cache\""), std::string::npos);
  llmc_chat_free(other);
}

TEST_F(ChatCTest, AFullContextForgetsTheOldestMessages) {
  options.max_tokens = 5;
  options.forget_oldest = 1;
  size_t forgotten = 0;
  std::string last;
  for (int i = 0; i < 200 && forgotten == 0; ++i) {
    ASSERT_EQ(say(("ABC" + std::to_string(i)).c_str()), LLMC_OK);
    ASSERT_EQ(llmc_chat_answer(chat, &options, &result), LLMC_OK) << llmc_chat_message(chat);
    EXPECT_NE(result.why, LLMC_STOPPED_CONTEXT);
    forgotten = result.forgotten;
    last = "\"ABC" + std::to_string(i) + "\"";
  }
  EXPECT_GT(forgotten, 0u);
  const char* json = nullptr;
  ASSERT_EQ(llmc_chat_save(chat, &json, nullptr, nullptr, nullptr), LLMC_OK);
  EXPECT_THAT(json, ::testing::HasSubstr(last));
  EXPECT_THAT(json, ::testing::Not(::testing::HasSubstr("\"ABC0\"")));
}

TEST_F(ChatCTest, NothingChangesWhatIsBeingAnswered) {
  ASSERT_EQ(say("ABC"), LLMC_OK);
  options.max_tokens = 3;
  options.user = chat;
  options.text = [](void* user, const char*, size_t) {
    auto* const c = static_cast<llmc_chat*>(user);
    const char* json = nullptr;
    EXPECT_EQ(llmc_chat_add(c, nullptr, "D", 1), LLMC_ERROR_BUSY);
    EXPECT_EQ(llmc_chat_drop_last(c), LLMC_ERROR_BUSY);
    EXPECT_EQ(llmc_chat_reset(c), LLMC_ERROR_BUSY);
    EXPECT_EQ(llmc_chat_set_grammar(c, nullptr), LLMC_ERROR_BUSY);
    EXPECT_EQ(llmc_chat_answer(c, nullptr, nullptr), LLMC_ERROR_BUSY);
    EXPECT_EQ(llmc_chat_save(c, &json, nullptr, nullptr, nullptr), LLMC_ERROR_BUSY);
    EXPECT_STREQ(json, "");
    EXPECT_EQ(llmc_chat_load(c, "{}", 2, nullptr, 0), LLMC_ERROR_BUSY);
    return 0;
  };
  ASSERT_EQ(llmc_chat_answer(chat, &options, &result), LLMC_OK);
  EXPECT_EQ(result.tokens, 3u);
  EXPECT_EQ(llmc_chat_add(chat, nullptr, "D", 1), LLMC_OK);
}

TEST_F(ChatCTest, SavedTextsThatNestWithoutEndAreRefused) {
  const std::size_t depth = tests::load(200000);
  const std::string deep = std::string(depth, '[') + std::string(depth, ']');
  for (const std::string& part :
       {"{\"file\": \"x\", \"hash\": \"0\", \"last\": " + deep + "}", "{\"hash\": " + deep + "}",
        deep, "{\"hash\": \"0\", \"last\": {\"text\": \"a\", \"tokens\": [" + deep + "]}}"}) {
    const std::string text = R"({"llmc_conversation": 1, "messages": [], "cache": )" + part + "}";
    EXPECT_EQ(llmc_chat_load(chat, text.data(), text.size(), "state", 5), LLMC_ERROR_STATE);
    EXPECT_EQ(Conversation::cache_name(text), part.starts_with("{\"file") ? "x" : "");
  }
}

TEST_F(ChatCTest, ACompiledSystemMessageIsNotRun) {
  std::vector<std::int32_t> ids(20);
  std::size_t count = 0;
  ASSERT_EQ(llmc_tokenizer_encode(tokenizer, "DEFGHIJ", 7, LLMC_ENCODE_PREFIX, ids.data(),
                                  ids.size(), &count),
            LLMC_OK);
  ids.resize(count);
  const fake::CompiledPrompt compiled(fake::model(), ids);
  const fake::Session begun(fake::config(), compiled.in(fake::model()));
  const TextFile file("compiled.chat.json", R"({"llmc_chat": 1, "system_message": "DEFGHIJ"})");
  llmc_chat* behind = nullptr;
  ASSERT_EQ(llmc_chat_create(begun, tokenizer, file.path.c_str(), &behind, nullptr, 0), LLMC_OK);
  ASSERT_EQ(llmc_chat_add(behind, nullptr, "AB", 2), LLMC_OK);
  options.max_tokens = 3;
  ASSERT_EQ(llmc_chat_answer(behind, &options, &result), LLMC_OK);
  EXPECT_EQ(result.kept_tokens, count);
  EXPECT_EQ(result.prompt_tokens, 2u);
  const std::string text = llmc_chat_text(behind, nullptr);
  ASSERT_EQ(llmc_chat_reset(behind), LLMC_OK);
  EXPECT_EQ(llmc_position(begun), count);
  llmc_chat_free(behind);
  // The same text in a session that has to run all of it.
  ASSERT_EQ(llmc_chat_add(chat, "system", "DEFGHIJ", 7), LLMC_OK);
  ASSERT_EQ(say("AB"), LLMC_OK);
  ASSERT_EQ(llmc_chat_answer(chat, &options, &result), LLMC_OK);
  EXPECT_EQ(result.prompt_tokens, count + 2);
  EXPECT_EQ(llmc_chat_text(chat, nullptr), text);
}

TEST_F(ChatCTest, TokensInFrontStay) {
  const fake::Session other;
  ASSERT_EQ(llmc_append(other, 1), LLMC_OK);
  ASSERT_EQ(llmc_append(other, 5), LLMC_OK);
  llmc_chat* behind = nullptr;
  ASSERT_EQ(llmc_chat_create(other, tokenizer, nullptr, &behind, nullptr, 0), LLMC_OK);
  ASSERT_EQ(llmc_chat_add(behind, nullptr, "AB", 2), LLMC_OK);
  options.max_tokens = 3;
  ASSERT_EQ(llmc_chat_answer(behind, &options, &result), LLMC_OK);
  EXPECT_GE(llmc_position(other), 2 + result.prompt_tokens);
  ASSERT_EQ(llmc_chat_reset(behind), LLMC_OK);
  EXPECT_EQ(llmc_position(other), 2u);
  llmc_chat_free(behind);
}

TEST_F(ChatCTest, MistakesAreStatuses) {
  EXPECT_EQ(llmc_chat_add(nullptr, nullptr, "x", 1), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_chat_add(chat, "tool", "x", 1), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_chat_add(chat, nullptr, nullptr, 1), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_chat_answer(nullptr, nullptr, nullptr), LLMC_ERROR_ARGUMENT);
  options.size = 4;
  EXPECT_EQ(llmc_chat_answer(chat, &options, nullptr), LLMC_ERROR_VERSION);
  options.size = sizeof options;
  options.stop_count = 1;
  EXPECT_EQ(llmc_chat_answer(chat, &options, nullptr), LLMC_ERROR_ARGUMENT);
  ASSERT_EQ(say(std::string(100, 'A').c_str()), LLMC_OK);
  EXPECT_EQ(llmc_chat_answer(chat, nullptr, nullptr), LLMC_ERROR_CONTEXT_FULL);
  EXPECT_THAT(llmc_chat_message(chat), ::testing::HasSubstr("do not fit the context of 45"));
  EXPECT_EQ(llmc_position(session), 0u);
  llmc_chat_cancel(nullptr);
  llmc_chat_free(nullptr);
  llmc_chat* other = nullptr;
  char message[100];
  EXPECT_EQ(llmc_chat_create(nullptr, tokenizer, nullptr, &other, message, sizeof message),
            LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_chat_create(session, tokenizer, "/nowhere", &other, message, sizeof message),
            LLMC_ERROR_FILE);
  const TextFile damaged("x.chat.json", "{\"llmc_chat\": 1, \"chat_template\": \"{{ a | b }}\"}");
  EXPECT_EQ(
      llmc_chat_create(session, tokenizer, damaged.path.c_str(), &other, message, sizeof message),
      LLMC_ERROR_FORMAT);
  EXPECT_STREQ(message, "chat template, line 1: the filter 'b' is not supported");
  EXPECT_EQ(other, nullptr);
}

}  // namespace
}  // namespace llmc::hosted

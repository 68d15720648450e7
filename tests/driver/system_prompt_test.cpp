#include "compiler/driver/system_prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/hosted/chat_tokenizer.h"

namespace llmc::driver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SystemPromptTest : public ::testing::Test {
 protected:
  std::string ids(const std::string& text) {
    const auto made =
        system_prompt_ids({.text = text, .ids = {}, .source = "p.txt"}, tokenizer.get(), {}, chat);
    if (made.ok()) return hosted::shown(*tokenizer, *made);
    failure = made.error().first();
    return "refused";
  }
  std::unique_ptr<hosted::Tokenizer> tokenizer = hosted::byte_tokenizer();
  hosted::ChatDescription chat;
  Diagnostic failure;
};

TEST_F(SystemPromptTest, IsWhatEveryConversationBeginsWith) {
  chat.jinja = hosted::kChatMl;
  EXPECT_EQ(ids("Be kind.\n"), "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n");
  EXPECT_EQ(chat.system_message, "Be kind.") << "without the file's last line break";
}

TEST_F(SystemPromptTest, WithoutATemplateIsTheTextBehindTheBeginningToken) {
  EXPECT_EQ(ids("Once"), "<s>Once");
  EXPECT_EQ(ids("Once\n\n"), "<s>Once\n") << "one line break is the file's, the rest the text's";
}

TEST_F(SystemPromptTest, IdsAreTakenAsTheyAre) {
  chat.jinja = "{{ raise_exception('not asked') }}";
  const auto made =
      system_prompt_ids({.text = {}, .ids = {5, 3, 5}, .source = {}}, nullptr, {}, chat);
  ASSERT_TRUE(made.ok());
  EXPECT_THAT(*made, ElementsAre(5, 3, 5));
  EXPECT_TRUE(chat.system_message.empty());
}

TEST_F(SystemPromptTest, NoTextIsRefused) {
  for (const char* text : {"", "\n", "\r\n", " \t\n\n"}) {
    EXPECT_EQ(ids(text), "refused");
    EXPECT_EQ(failure.kind, ErrorKind::kBadInput);
    EXPECT_THAT(failure.message, HasSubstr("empty"));
    EXPECT_EQ(failure.file, "p.txt");
  }
  EXPECT_EQ(ids("a\xFF"), "refused");
  EXPECT_THAT(failure.message, HasSubstr("UTF-8"));
}

TEST_F(SystemPromptTest, ATemplateThatHasNoPlaceForItIsRefused) {
  chat.jinja =
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}"
      "{% endif %}{{ m.content }}{% endfor %}";
  EXPECT_EQ(ids("Be kind."), "refused");
  EXPECT_EQ(failure.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(failure.message, HasSubstr("no system"));
  EXPECT_THAT(failure.hint, HasSubstr("--system-prompt-tokens"));
  // Templates that omit the system message, or write it after the user's.
  for (const char* jinja :
       {"{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}",
        "{{ messages[-1].content }}{{ messages[0].content }}"}) {
    chat.jinja = jinja;
    EXPECT_EQ(ids("Be kind."), "refused");
    EXPECT_THAT(failure.message, HasSubstr("in front of what is said"));
  }
}

TEST_F(SystemPromptTest, ATextNeedsATokenizer) {
  const SystemPrompt prompt{.text = "x", .ids = {}, .source = "p.txt"};
  auto refused = system_prompt_ids(prompt, nullptr, {}, chat);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().first().kind, ErrorKind::kBadInput);
  EXPECT_THAT(refused.error().first().hint, HasSubstr("--system-prompt-tokens"));
  refused = system_prompt_ids(prompt, nullptr, "it has a strange normalizer", chat);
  EXPECT_THAT(refused.error().first().message, HasSubstr("strange normalizer"));
}

}  // namespace
}  // namespace llmc::driver

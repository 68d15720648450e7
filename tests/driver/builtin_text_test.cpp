#include "compiler/driver/builtin_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/file.h"
#include "tests/runtime/hosted/chat_tokenizer.h"
#include "tests/support/temporary_folder.h"

namespace llmc::driver {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class BuiltinTextTest : public ::testing::Test {
 protected:
  /// Returns the text for a model with this chat template, with control tokens by name.
  std::string text(const std::string& chat_template) {
    EXPECT_TRUE(write_file(folder_.path() / "chat_template.jinja", chat_template).ok());
    return text();
  }
  std::string text() {
    const auto made = builtin_text(folder_.path(), *tokenizer_);
    if (!made.ok()) {
      ADD_FAILURE() << format(made.error().first());
      return {};
    }
    refused_ = made->refused;
    return hosted::shown(*tokenizer_, made->ids);
  }

  testing::TemporaryFolder folder_;
  const std::unique_ptr<hosted::Tokenizer> tokenizer_ = hosted::byte_tokenizer();
  std::string refused_;
};

constexpr const char* kQuestion = "What is the capital of Australia?";

TEST_F(BuiltinTextTest, ConversationsHaveTheFormatOfTheModel) {
  const std::string made = text(hosted::kChatMl);
  EXPECT_EQ(refused_, "");
  EXPECT_THAT(made, StartsWith(std::string("<|im_start|>user\n") + kQuestion +
                               "<|im_end|>\n<|im_start|>assistant\nThe capital of Australia is "
                               "Canberra."));
  EXPECT_THAT(made, HasSubstr("<|im_start|>system\nYou are a helpful assistant"));
  EXPECT_THAT(made, HasSubstr("<|im_end|>\nOnce there was a girl named Mina"));
  EXPECT_THAT(made, HasSubstr("今天天气很好"));
  EXPECT_LT(made.find("Once there was a girl"), made.find("a Python function that counts"))
      << "passages are between conversations";
  EXPECT_LT(made.find("今天天气很好"), made.find("during an eclipse"));
  EXPECT_THAT(made, EndsWith("on the first Monday of the month.\n\n"));
  EXPECT_THAT(made, Not(HasSubstr("====")));
}

TEST_F(BuiltinTextTest, WithoutATemplateMessagesArePlainText) {
  const std::string made = text();
  EXPECT_EQ(refused_, "");
  EXPECT_THAT(made, StartsWith(std::string(kQuestion) + "\n\nThe capital of Australia is"));
  EXPECT_THAT(made, HasSubstr("\n\nOnce there was a girl named Mina"));
  EXPECT_THAT(made, EndsWith("on the first Monday of the month.\n\n"));
  EXPECT_THAT(made, Not(HasSubstr("====")));
}

TEST_F(BuiltinTextTest, TheDateOfATemplateIsAlwaysTheSame) {
  EXPECT_THAT(text("{{ strftime_now('%d %b %Y') }}{% for m in messages %}{{ m.content }}"
                   "{% endfor %}"),
              StartsWith(std::string("01 Jan 2025") + kQuestion));
}

TEST_F(BuiltinTextTest, SystemMessagesAreLeftOutWhereTheTemplateRejectsThem) {
  const std::string made = text(
      "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
      "{% for m in messages %}{{ '<s>' ~ m.content }}{% endfor %}");
  EXPECT_EQ(refused_, "");
  EXPECT_THAT(made, HasSubstr("<s>Write a Python function"));
  EXPECT_THAT(made, Not(HasSubstr("You are a helpful assistant")));
}

TEST_F(BuiltinTextTest, ATemplateThatCannotBeUsedIsReported) {
  const std::string plain = text();
  EXPECT_EQ(text("{% if messages|length > 3 %}{{ raise_exception('too long') }}{% endif %}"
                 "{{ messages[0].content }}"),
            plain);
  EXPECT_THAT(refused_, HasSubstr("too long"));
  EXPECT_EQ(text("{{ messages"), plain);
  EXPECT_NE(refused_, "");
}

TEST_F(BuiltinTextTest, ADamagedConfigurationIsAnError) {
  EXPECT_TRUE(write_file(folder_.path() / "tokenizer_config.json", std::string_view("[")).ok());
  EXPECT_FALSE(builtin_text(folder_.path(), *tokenizer_).ok());
}

}  // namespace
}  // namespace llmc::driver

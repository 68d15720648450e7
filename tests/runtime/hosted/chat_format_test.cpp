#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/hosted/chat/format.h"
#include "tests/runtime/hosted/chat_tokenizer.h"
#include "tests/runtime/hosted/shared_files.h"

namespace llmc::hosted {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Message kQuestion{"user", "Hi", {}};

struct ChatFormatTest : ::testing::Test {
  ChatFormat make(ChatDescription description) {
    auto made = ChatFormat::create(std::move(description), *tokenizer);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.failure().message);
    return *std::move(made);
  }
  ChatFormat with(const std::string& jinja) {
    ChatDescription description;
    description.jinja = jinja;
    return make(description);
  }
  std::string refused(ChatDescription description) {
    auto made = ChatFormat::create(std::move(description), *tokenizer);
    return made.ok() ? "made" : made.failure().message;
  }
  std::unique_ptr<Tokenizer> tokenizer = byte_tokenizer();
};

TEST_F(ChatFormatTest, TheTokenBehindAnAnswerEndsIt) {
  // Not the tokenizer's own: a template that ends turns with another token.
  const ChatFormat format =
      with("{% for m in messages %}{{ m.content }}{{ '\\n<|im_start|>' }}{% endfor %}");
  EXPECT_THAT(format.stop_ids(), ElementsAre(kTurnEnd, kTurnBegin));
  EXPECT_THAT(format.stop_texts(), IsEmpty());
  EXPECT_THAT(with(kChatMl).stop_ids(), ElementsAre(kTurnEnd));
}

TEST_F(ChatFormatTest, TextBehindAnAnswerEndsItWhenNoTokenDoes) {
  const ChatFormat format =
      with("{% for m in messages %}### {{ m.role }}:\n{{ m.content }}\n\n{% endfor %}");
  EXPECT_THAT(format.stop_texts(), ElementsAre("### user:"));
}

TEST_F(ChatFormatTest, IdsOfTheModelsFilesEndAnswersToo) {
  ChatDescription description;
  description.stop_ids = {65, 65, 100'000};  // one twice, one the vocabulary lacks
  description.eos = "<s>";
  EXPECT_THAT(make(description).stop_ids(), ElementsAre(kTurnEnd, 65, kTextBegin));
}

TEST_F(ChatFormatTest, ControlTokensAreTakenOfTemplatesAndNotOfPlainText) {
  const ChatFormat format = with(kChatMl);
  const auto text = format.render(std::span(&kQuestion, 1), true);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_THAT(format.encode("<|im_start|>a"), ElementsAre(kTurnBegin, 'a'));
  const ChatFormat plain = make({});
  EXPECT_FALSE(plain.has_template());
  EXPECT_EQ(plain.encode("<s>a").size(), 5u) << "the beginning token, then four letters";
}

TEST_F(ChatFormatTest, TheBeginningTokenIsTheTemplatesAffair) {
  EXPECT_THAT(with("{{ bos_token }}{{ messages[0].content }}").encode("<s>x"),
              ElementsAre(kTextBegin, 'x'));
  ChatDescription mnn;
  mnn.user = "Q: %s\nA:";
  mnn.add_prefix = true;
  EXPECT_THAT(make(mnn).encode("x"), ElementsAre(kTextBegin, 'x'));
  EXPECT_THAT(make(mnn).encode("<s>x"), ElementsAre(kTextBegin, 'x')) << "not twice";
}

TEST_F(ChatFormatTest, PromptsWithAPlaceForTheText) {
  ChatDescription d;
  d.user = "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n";
  const Message said[] = {kQuestion, {"assistant", "Ho", "<|im_end|>"}, {"user", "%s", {}}};
  EXPECT_EQ(*make(d).render(said, true),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHo<|im_end|>"
            "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n");
  const Message system{"system", "S", {}};
  EXPECT_THAT(make(d).render(std::span(&system, 1), true).failure().message,
              HasSubstr("no place for a system prompt"));
  d.user = "U%s;";
  d.system = "S%s;";
  d.assistant = "A%s;";
  EXPECT_EQ(*make(d).render(said, true), "UHi;AHo;U%s;A");
  EXPECT_EQ(*make(d).render(std::span(&system, 1), false), "SS;");
}

TEST_F(ChatFormatTest, WhatCannotBeUsedIsRefusedAtOnce) {
  ChatDescription description;
  description.source = "tokenizer_config.json";
  description.jinja = "{{ messages | nonsense }}";
  EXPECT_EQ(refused(description),
            "tokenizer_config.json: chat template, line 1: the filter 'nonsense' is not supported");
  description.jinja = "{{ messages.nothing.at.all }}";
  EXPECT_THAT(refused(description), HasSubstr("line 1"));
  description.jinja = "always the same";
  EXPECT_THAT(refused(description), HasSubstr("does not include the user's message"));
}

TEST_F(ChatFormatTest, WithoutATemplateTheSystemPromptStaysWhenATextHasEnded) {
  const std::vector<Message> messages = {{"system", "S.", {}},
                                         {"user", "one", {}},
                                         {"assistant", " two", "<s>"},
                                         {"user", "three", {}}};
  const ChatFormat format = make({});
  EXPECT_EQ(*format.render(std::span(messages).first(2), true), "S.one");
  EXPECT_EQ(*format.render(messages, true), "S.three");
}

TEST_F(ChatFormatTest, TextsBehindOthersHaveIdsWhenAControlTokenParts) {
  const ChatFormat format = with(kChatMl);
  EXPECT_EQ(format.encode_continuation("<|im_end|>\n")->size(), 2u);
  EXPECT_FALSE(format.encode_continuation(" <|im_end|>").has_value());
  EXPECT_TRUE(format.encode_continuation("")->empty());
  EXPECT_FALSE(make({}).encode_continuation("x").has_value());
}

TEST(ChatFormatOfQwen, IsFoundInItsFiles) {
  const auto folder = shared_folder() / "tokenizers/qwen2.5";
  LLMC_SKIP_WITHOUT(folder);
  const auto tokenizer = Tokenizer::load(folder / "tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.failure().message;
  std::ifstream file(folder / "tokenizer_config.json");
  ChatDescription description;
  description.jinja = nlohmann::json::parse(file).at("chat_template").get<std::string>();
  const auto format = ChatFormat::create(description, **tokenizer);
  ASSERT_TRUE(format.ok()) << format.failure().message;
  EXPECT_TRUE(format->is_stop(151'645)) << "<|im_end|>, which stands behind answers";
  EXPECT_EQ(*format->render(std::span(&kQuestion, 1), true),
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nHi"
            "<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_THAT(format->encode("<|im_start|>user\nHi<|im_end|>"),
              ElementsAre(151'644, 872, 198, 13'048, 151'645));
}

TEST(ChatDescriptionTest, SurvivesItsFile) {
  ChatDescription d;
  d.jinja = "{{ 'é\n\"' }}";
  d.bos = "<s>";
  d.source = "chat_template.jinja";
  d.stop_ids = {2, 151'645};
  d.add_prefix = true;
  d.sampling = {{sampling_parameter("top_k"), 20}, {sampling_parameter("temperature"), 0.6}};
  const auto read = parse_chat_description(to_json(d), "x.chat.json");
  ASSERT_TRUE(read.ok()) << read.failure().message;
  EXPECT_EQ(read->jinja, d.jinja);
  EXPECT_EQ(read->bos, d.bos);
  EXPECT_EQ(read->eos, "");
  EXPECT_EQ(read->source, d.source);
  EXPECT_EQ(read->stop_ids, d.stop_ids);
  EXPECT_TRUE(read->add_prefix);
  ASSERT_EQ(read->sampling.size(), 2u);
  EXPECT_STREQ(read->sampling[0].parameter->name, "top_k");
  EXPECT_EQ(read->sampling[1].value, 0.6);
  EXPECT_EQ(to_json(*read), to_json(d));
}

TEST(ChatDescriptionTest, DamagedFilesAreRefused) {
  for (const char* text :
       {"", "[]", "{}", "{\"llmc_chat\": 1", "{\"llmc_chat\": 1, \"chat_template\": 3}",
        "{\"llmc_chat\": 1, \"user_prompt\": \"no place\"}",
        "{\"llmc_chat\": 1, \"user_prompt\": \"%s %s\"}", "{\"llmc_chat\": 1, \"stop_ids\": 3}",
        "{\"llmc_chat\": 1, \"stop_ids\": [-1]}", "{\"llmc_chat\": 1, \"stop_ids\": [\"x\"]}"}) {
    const auto read = parse_chat_description(text, "x.chat.json");
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.failure().status, LLMC_ERROR_FORMAT) << text;
    EXPECT_THAT(read.failure().message, ::testing::StartsWith("x.chat.json: "));
  }
  const auto other = parse_chat_description("{\"llmc_chat\": 2}", "x.chat.json");
  EXPECT_EQ(other.failure().status, LLMC_ERROR_VERSION);
}

}  // namespace
}  // namespace llmc::hosted

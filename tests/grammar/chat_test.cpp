// Conversations of hosted.h with a grammar for the answers.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "llmc/hosted.h"
#include "tests/grammar/grammar_fixture.h"
#include "tests/runtime/core/fake_model.h"
#include "tests/runtime/hosted/base64.h"
#include "tests/support/temporary_folder.h"

namespace llmc::hosted::grammar::testing {
namespace {

constexpr std::string_view kPairs = "root ::= [A-F] [G-M] \"N\"";

/// The fake model's 50 tokens: three control tokens, a space, and the characters from 'A' on.
Vocabulary letters() {
  Vocabulary vocabulary;
  vocabulary.tokens = {"", "", "", " "};
  for (char c = 'A'; c < 'A' + 46; ++c) vocabulary.tokens.emplace_back(1, c);
  vocabulary.stops = {2};
  return vocabulary;
}

class GrammarChat : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text = "430 0\n3 1 1\n0 1 2 2 1\n50\n";
    for (const char* const name : {"<unk>", "<s>", "</s>"})
      text += hosted::base64(name) + (std::string(name) == "<unk>" ? " 0 2\n" : " 0 3\n");
    text += hosted::base64("\xE2\x96\x81") + " -1 1\n";
    for (char c = 'A'; c < 'A' + 46; ++c) text += hosted::base64(std::string(1, c)) + " -2 1\n";
    const auto path = folder_.path() / "tokenizer.txt";
    std::ofstream(path, std::ios::binary) << text;
    ASSERT_EQ(llmc_tokenizer_load(path.c_str(), &tokenizer_, nullptr, 0), LLMC_OK);
    ASSERT_EQ(llmc_chat_create(session_, tokenizer_, nullptr, &chat_, nullptr, 0), LLMC_OK);
    tables_ = *build_tables(parsed(kPairs), letters());
    ASSERT_EQ(llmc_grammar_init(memory_, sizeof memory_, tables_.bytes.data(), tables_.bytes.size(),
                                &grammar_),
              LLMC_OK);
  }
  void TearDown() override {
    llmc_chat_free(chat_);
    llmc_tokenizer_free(tokenizer_);
  }
  std::string answer_to(const char* text) {
    EXPECT_EQ(llmc_chat_add(chat_, nullptr, text, std::strlen(text)), LLMC_OK);
    llmc_chat_options options{};
    options.size = sizeof options;
    options.max_tokens = 8;
    EXPECT_EQ(llmc_chat_answer(chat_, &options, &result_), LLMC_OK) << llmc_chat_message(chat_);
    return llmc_chat_text(chat_, nullptr);
  }

  llmc::testing::TemporaryFolder folder_;
  fake::Session session_;
  Tables tables_;
  alignas(64) unsigned char memory_[LLMC_GRAMMAR_BYTES];
  llmc_grammar* grammar_ = nullptr;
  llmc_tokenizer* tokenizer_ = nullptr;
  llmc_chat* chat_ = nullptr;
  llmc_chat_result result_{};
};

TEST_F(GrammarChat, EveryAnswerIsATextOfItsOwn) {
  ASSERT_EQ(llmc_chat_set_grammar(chat_, grammar_), LLMC_OK);
  const Grammar grammar = parsed(kPairs);
  for (const char* const said : {"ABC", "XYZ", "DEF"}) {
    const std::string text = answer_to(said);
    EXPECT_TRUE(belongs(grammar, text)) << text;
    EXPECT_EQ(result_.why, LLMC_STOPPED_GRAMMAR);
    EXPECT_EQ(result_.tokens, 3u);
  }
  ASSERT_EQ(llmc_chat_set_grammar(chat_, nullptr), LLMC_OK);
  answer_to("GHI");
  EXPECT_NE(result_.why, LLMC_STOPPED_GRAMMAR);
  EXPECT_EQ(llmc_chat_set_grammar(nullptr, grammar_), LLMC_ERROR_ARGUMENT);
}

}  // namespace
}  // namespace llmc::hosted::grammar::testing

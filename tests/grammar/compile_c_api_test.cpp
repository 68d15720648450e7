// llmc_grammar_compile of hosted.h: tables made at run time are those that the compiler makes.
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "llmc/hosted.h"
#include "runtime/hosted/grammar/model_vocabulary.h"
#include "tests/grammar/grammar_fixture.h"
#include "tests/support/temporary_folder.h"

namespace llmc::hosted::grammar::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string content_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class GrammarCompile : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(llmc_tokenizer_load(path_.c_str(), &tokenizer_, nullptr, 0), LLMC_OK);
    options_.size = sizeof options_;
  }
  void TearDown() override { llmc_tokenizer_free(tokenizer_); }

  /// The tables, or nothing: then status_ and message_ say why.
  std::string compile(llmc_grammar_kind kind, std::string_view text) {
    const void* tables = this;
    std::size_t bytes = 1;
    char message[300];
    status_ = llmc_grammar_compile(tokenizer_, kind, text.data(), text.size(), &options_, &tables,
                                   &bytes, message, sizeof message);
    message_ = message;
    EXPECT_EQ(tables != nullptr, status_ == LLMC_OK);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tables) % 8, 0u);
    std::string result(static_cast<const char*>(tables), bytes);
    llmc_grammar_tables_free(tables);
    return result;
  }
  /// What the compiler makes, of a model with `vocab` tokens.
  std::string expected(const Grammar& grammar, std::size_t vocab, const ChatDescription& chat) {
    const auto tokenizer = Tokenizer::load(path_);
    EXPECT_TRUE(tokenizer.ok());
    return build_tables(grammar, model_vocabulary(**tokenizer, vocab, chat))->bytes;
  }

  const fs::path path_ = LLMC_SOURCE_DIR "/models/tinyfable/tokenizer.txt";
  llmc_tokenizer* tokenizer_ = nullptr;
  llmc_grammar_options options_{};
  llmc_status status_ = LLMC_OK;
  std::string message_;
};

TEST_F(GrammarCompile, GivesTheTablesOfTheCompiler) {
  const std::size_t vocab = llmc_tokenizer_size(tokenizer_);
  for (const auto& entry : fs::directory_iterator(LLMC_SOURCE_DIR "/docs/examples/grammars")) {
    const std::string text = content_of(entry.path());
    const bool gbnf = entry.path().extension() == ".gbnf";
    const std::string tables = compile(gbnf ? LLMC_GRAMMAR_GBNF : LLMC_GRAMMAR_JSON_SCHEMA, text);
    EXPECT_EQ(status_, LLMC_OK) << entry.path() << ": " << message_;
    EXPECT_TRUE(tables == expected(gbnf ? parsed(text) : parsed_schema(text), vocab, {}));
  }
}

TEST_F(GrammarCompile, TakesTheModelsVocabularyAndStopTokens) {
  ChatDescription chat;
  chat.user = "Q: %s\n";
  chat.stop_ids = {300};
  const llmc::testing::TemporaryFolder folder;
  const std::string path = folder.path() / "m.chat.json";
  std::ofstream(path) << to_json(chat);
  constexpr std::string_view kText = "root ::= [a-z]+";
  options_.chat_path = path.c_str();
  options_.vocab = 1000;
  const std::string tables = compile(LLMC_GRAMMAR_GBNF, kText);
  EXPECT_TRUE(tables == expected(parsed(kText), 1000, chat));
  EXPECT_FALSE(tables == expected(parsed(kText), 1000, {}));
  options_.chat_path = "/no/such/file";
  compile(LLMC_GRAMMAR_GBNF, kText);
  EXPECT_EQ(status_, LLMC_ERROR_FILE);
  EXPECT_THAT(message_, HasSubstr("/no/such/file"));
}

TEST_F(GrammarCompile, TextsOfTheGrammarAreGenerated) {
  options_.root = "pair";
  const std::string tables =
      compile(LLMC_GRAMMAR_GBNF, "other ::= \"x\"\npair ::= [ab] other other");
  ASSERT_EQ(status_, LLMC_OK) << message_;
  std::vector<std::uint64_t> aligned(tables.size() / 8 + 1);
  std::memcpy(aligned.data(), tables.data(), tables.size());
  alignas(8) unsigned char memory[LLMC_GRAMMAR_BYTES];
  llmc_grammar* grammar = nullptr;
  ASSERT_EQ(llmc_grammar_init(memory, sizeof memory, aligned.data(), tables.size(), &grammar),
            LLMC_OK);
  // Always the last token that is allowed.
  std::vector<std::uint32_t> mask((llmc_tokenizer_size(tokenizer_) + 31) / 32);
  std::string text;
  const auto tokenizer = Tokenizer::load(path_);
  while (llmc_grammar_text_state(grammar) != LLMC_GRAMMAR_COMPLETE) {
    std::ranges::fill(mask, 0xFFFFFFFFu);
    ASSERT_EQ(llmc_grammar_allow(grammar, mask.data(), mask.size()), LLMC_OK);
    auto token = static_cast<std::int32_t>(mask.size() * 32);
    while (token-- > 0 && (mask[token / 32] >> token % 32 & 1) == 0) continue;
    ASSERT_EQ(llmc_grammar_accept(grammar, token), LLMC_OK);
    text += (*tokenizer)->bytes_of(token);
  }
  EXPECT_TRUE(text == "axx" || text == "bxx") << text;
}

TEST_F(GrammarCompile, FailuresSayWhere) {
  EXPECT_EQ(compile(LLMC_GRAMMAR_GBNF, "root ::= \"a\"\n  b ::= ["), "");
  EXPECT_EQ(status_, LLMC_ERROR_FORMAT);
  EXPECT_THAT(message_, HasSubstr("line 2, column 10: a ']' is missing"));
  compile(LLMC_GRAMMAR_GBNF, "a ::= \"a\"");
  EXPECT_THAT(message_, HasSubstr("the start rule 'root' is missing"));
  options_.root = "start";
  compile(LLMC_GRAMMAR_GBNF, "a ::= \"a\"");
  EXPECT_THAT(message_, HasSubstr("the start rule 'start' is missing"));
  compile(LLMC_GRAMMAR_JSON_SCHEMA, R"({"properties": {"a\u0001": {"uniqueItems": true}}})");
  EXPECT_EQ(status_, LLMC_ERROR_FORMAT);
  EXPECT_THAT(message_, HasSubstr("#/properties/a\\x01: 'uniqueItems' is not supported ("));
  options_.max_bytes = 1000;
  compile(LLMC_GRAMMAR_JSON_SCHEMA, "true");
  EXPECT_THAT(message_, HasSubstr("the grammar is too large"));
  options_.max_bytes = 0;
  options_.max_steps = 10;
  compile(LLMC_GRAMMAR_JSON_SCHEMA, "true");
  EXPECT_THAT(message_, HasSubstr("the grammar is too large"));
}

TEST_F(GrammarCompile, ChecksItsArguments) {
  const void* tables = this;
  std::size_t bytes = 1;
  EXPECT_EQ(
      llmc_grammar_compile(nullptr, LLMC_GRAMMAR_GBNF, "", 0, nullptr, &tables, &bytes, nullptr, 0),
      LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(tables, nullptr);
  EXPECT_EQ(bytes, 0u);
  const auto status = [&](const char* text, std::size_t size, llmc_grammar_kind kind) {
    return llmc_grammar_compile(tokenizer_, kind, text, size, nullptr, &tables, &bytes, nullptr, 0);
  };
  EXPECT_EQ(status(nullptr, 1, LLMC_GRAMMAR_GBNF), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(status(nullptr, 0, LLMC_GRAMMAR_GBNF), LLMC_ERROR_FORMAT);
  EXPECT_EQ(llmc_grammar_compile(tokenizer_, LLMC_GRAMMAR_GBNF, "", 0, nullptr, nullptr, &bytes,
                                 nullptr, 0),
            LLMC_ERROR_ARGUMENT);
  options_.size = 8;
  compile(LLMC_GRAMMAR_GBNF, "root ::= \"a\"");
  EXPECT_EQ(status_, LLMC_ERROR_VERSION);
  llmc_grammar_tables_free(nullptr);
}

}  // namespace
}  // namespace llmc::hosted::grammar::testing

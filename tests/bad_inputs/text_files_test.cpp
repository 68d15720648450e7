// llm_config.json and tokenizer.txt that lie or are damaged.

#include "compiler/onnx/tokenizer_file.h"
#include "tests/bad_inputs/bad_inputs.h"

namespace llmc::testing {
namespace {

namespace fs = std::filesystem;

class BadText : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadText, IsRefused) {
  expect_refused(GetParam());
}

BadInput config(const std::string& name, const std::string& text, const std::string& message,
                ErrorKind kind = ErrorKind::kBadInput) {
  return {name, [text](const fs::path& folder) { write_bytes(folder / "llm_config.json", text); },
          kind, "llm_config.json", message};
}

std::vector<BadInput> config_inputs() {
  return {
      config("NotJson", "{\"hidden_size\": 24,", "not valid JSON: line 1, column 20"),
      config("NotUtf8", "{\"prompt_template\": \"\xff\"}", "not valid JSON"),
      config("Array", "[1, 2]", "not a JSON object"),
      config("Deep", std::string(200000, '['), "not valid JSON"),
      config("HiddenText", R"({"hidden_size": "24"})", "'hidden_size' is not a whole number"),
      config("HiddenFraction", R"({"hidden_size": 24.5})", "'hidden_size' is not a whole number"),
      config("HiddenZero", R"({"hidden_size": 0})", "'hidden_size' is not between"),
      config("HiddenNegative", R"({"hidden_size": -24})", "'hidden_size' is not between"),
      config("HiddenHuge", R"({"hidden_size": 18446744073709551615})",
             "'hidden_size' is not between"),
      config("LayersHuge", R"({"layer_nums": 1000000})", "'layer_nums' is not between"),
      config("LayersWrong", R"({"layer_nums": 3})", "'layer_nums' is 3"),
      config("CacheText", R"({"key_value_shape": "2,1,0,2,8"})", "'key_value_shape'"),
      config("CacheShort", R"({"key_value_shape": [2, 1, 0, 2]})", "'key_value_shape'"),
      config("CacheNoLength", R"({"key_value_shape": [2, 1, 3, 2, 8]})", "'key_value_shape'"),
      config("CacheTwoLengths", R"({"key_value_shape": [2, 1, 0, 0, 8]})", "'key_value_shape'"),
      config("CacheNegative", R"({"key_value_shape": [2, 1, 0, -2, 8]})", "'key_value_shape'"),
      config("CacheHuge", R"({"key_value_shape": [2, 1, 0, 2, 9223372036854775807]})",
             "'key_value_shape'"),
      config("CacheOfFive", R"({"key_value_shape": [2, 5, 0, 2, 8]})", "'key_value_shape'"),
      config("TemplateNumber", R"({"prompt_template": 7})", "'prompt_template' is not a string"),
      config("SingleNumber", R"({"is_single": 0})", "'is_single' is neither true nor false"),
      config("IntegerMask", R"({"attention_mask": "int"})", "only additive float masks",
             ErrorKind::kUnsupported),
      config("Visual", R"({"is_visual": true})", "images", ErrorKind::kUnsupported),
  };
}

/// Fields that are well formed, but not the graph's.
std::vector<BadInput> mismatch_inputs() {
  const auto with = [](const std::string& name, const std::string& text, const std::string& file) {
    BadInput input = config(name, text, "");
    input.file = file;
    return input;
  };
  return {
      with("HiddenOfAnotherModel", R"({"hidden_size": 48})", "block_0.onnx"),
      with("HeadsOfAnotherModel", R"({"key_value_shape": [2, 1, 0, 3, 8]})", "block_0.onnx"),
      with("HeadDimOfAnotherModel", R"({"key_value_shape": [2, 1, 0, 2, 16]})", "block_0.onnx"),
  };
}

BadInput tokenizer(const std::string& name, const std::string& text, const std::string& message) {
  return {name, [text](const fs::path& folder) { write_bytes(folder / "tokenizer.txt", text); },
          ErrorKind::kBadInput, "tokenizer.txt", message};
}

std::vector<BadInput> tokenizer_inputs() {
  const std::string two = "2\nYQ== 0.0 1\nYg== -1.5 1\n";  // "a", "b"
  return {
      tokenizer("NoMagic", "hello\n", "line 1: expected '430'"),
      tokenizer("WrongMagic", "431 0\n", "expected '430'"),
      tokenizer("UnknownType", "430 9\n0 0 0\n\n" + two, "unknown tokenizer type 9"),
      tokenizer("NoCounts", "430 0\n", "expected the counts"),
      tokenizer("TwoCounts", "430 0\n1 1\n0 0\n" + two, "expected the counts"),
      tokenizer("NegativeCount", "430 0\n-1 1 0\n\n" + two, "out of range"),
      tokenizer("HugeCount", "430 0\n9000000000000000000 1 1\n0\n" + two, "out of range"),
      tokenizer("OverflowingCount", "430 0\n99999999999999999999 1 1\n0\n" + two,
                "expected the counts"),
      tokenizer("TooFewIds", "430 0\n1 1 1\n0 1\n" + two, "holds 2 ids"),
      tokenizer("TooManyIds", "430 0\n1 0 0\n0 1\n" + two, "holds 2 ids"),
      tokenizer("IdIsText", "430 0\n1 0 0\nx\n" + two, "expected token ids"),
      tokenizer("StopIdTooLarge", "430 0\n0 1 0\n40\n" + two, "stop id 40 is not below 40"),
      tokenizer("PrefixIdNegative", "430 0\n0 0 1\n-1\n" + two, "prefix id -1"),
      tokenizer("SpecialIdWithoutToken", "430 0\n1 0 0\n2\n" + two, "special id 2 is not below 2"),
      tokenizer("NoVocabulary", "430 0\n0 0 0\n\n", "expected the size of the vocabulary"),
      tokenizer("VocabularyZero", "430 0\n0 0 0\n\n0\n", "expected the size"),
      tokenizer("VocabularyTooLarge", "430 0\n0 0 0\n\n41\n", "41 tokens, but the model has 40"),
      tokenizer("VocabularyHuge", "430 0\n0 0 0\n\n9223372036854775807\n", "but the model has 40"),
      tokenizer("Truncated", "430 0\n0 0 0\n\n3\nYQ== 0.0 1\n", "ends after 1 of 3 tokens"),
      tokenizer("TooManyLines", "430 0\n0 0 0\n\n1\nYQ== 0.0 1\nYg== 0.0 1\n", "more lines"),
      tokenizer("BadBase64", "430 0\n0 0 0\n\n1\nY$== 0.0 1\n", "not valid base64"),
      tokenizer("OddBase64", "430 0\n0 0 0\n\n1\nYQ= 0.0 1\n", "not valid base64"),
      tokenizer("PaddingInside", "430 1\n0 0 0\n\n1\nY=Q=\n", "not valid base64"),
      tokenizer("WordPieceIsNoBase64", "430 2\n0 0 0\n\n1\n[PAD]\n", "not valid base64"),
      tokenizer("ScoreIsText", "430 0\n0 0 0\n\n1\nYQ== high 1\n", "score"),
      tokenizer("TypeMissing", "430 0\n0 0 0\n\n1\nYQ== 0.0\n", "type is not 1 to 6"),
      tokenizer("TypeWrong", "430 0\n0 0 0\n\n1\nYQ== 0.0 7\n", "type is not 1 to 6"),
      tokenizer("WordsTooMany", "430 1\n0 0 0\n\n1\nYQ== 0.0\n", "more words"),
      tokenizer("MergesMissing", "430 3\n0 0 0\n\n1 2\na\nb c\n", "ends after 1 of 2 merges"),
      tokenizer("MergesUncounted", "430 3\n0 0 0\n\n1\na\n", "expected the size"),
      tokenizer("Binary", std::string("\x00\x01\x02\xff", 4), "expected '430'"),
  };
}

INSTANTIATE_TEST_SUITE_P(Config, BadText, ::testing::ValuesIn(config_inputs()), name_of);
INSTANTIATE_TEST_SUITE_P(ConfigOfAnother, BadText, ::testing::ValuesIn(mismatch_inputs()), name_of);
INSTANTIATE_TEST_SUITE_P(Tokenizer, BadText, ::testing::ValuesIn(tokenizer_inputs()), name_of);

TEST(GoodTokenizer, OfEveryTypeIsTaken) {
  const auto check = [](const std::string& text) {
    return importer::check_tokenizer_text(text, "tokenizer.txt", 40);
  };
  const auto sentencepiece = check("430 0\n1 2 1\n1 0 39 1\n2\nYQ== 0.0 1\nYg== -1.5 1\n");
  ASSERT_TRUE(sentencepiece.ok());
  EXPECT_EQ(sentencepiece->tokens, 2);
  EXPECT_EQ(sentencepiece->special_ids, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(sentencepiece->stop_ids, (std::vector<std::int64_t>{0, 39}));
  EXPECT_EQ(sentencepiece->prefix_ids, (std::vector<std::int64_t>{1}));
  EXPECT_TRUE(check("430 1\r\n0 0 0\r\n\r\n1\r\nYQ==\r\n").ok());
  EXPECT_TRUE(check("430 2\n0 0 0\n\n2\nW1BBRF0=\nYQ==\n").ok());
  const auto hugging_face = check("430 3\n0 0 0\n\n2 1\na\nb\na b\n");
  ASSERT_TRUE(hugging_face.ok());
  EXPECT_EQ(hugging_face->kind, importer::TokenizerKind::kHuggingFaceText);
}

}  // namespace
}  // namespace llmc::testing

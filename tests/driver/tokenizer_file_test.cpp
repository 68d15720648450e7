#include "compiler/driver/tokenizer_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/file.h"
#include "tests/support/temporary_folder.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;

TEST(FindTokenizer, LooksBesideAModelNamedWithoutAFolder) {
  const testing::TemporaryFolder folder;
  fs::create_directory(folder.path() / "onnx");
  ASSERT_TRUE(write_file(folder.path() / "tokenizer.txt", std::string_view("x")).ok());
  const fs::path before = fs::current_path();
  fs::current_path(folder.path() / "onnx");
  const fs::path found = find_tokenizer("model.onnx"), of_folder = find_tokenizer(".");
  fs::current_path(before);
  EXPECT_EQ(found.filename(), "tokenizer.txt");
  EXPECT_EQ(of_folder.filename(), "tokenizer.txt");
}

TEST(FindTokenizer, TakesWhatHuggingFaceTakes) {
  const testing::TemporaryFolder folder;
  const auto write = [&](const char* name) {
    ASSERT_TRUE(write_file(folder.path() / name, std::string_view("x")).ok());
  };
  const auto found = [&] { return find_tokenizer(folder.path()).filename(); };
  write("z.tiktoken");
  EXPECT_EQ(found(), "z.tiktoken");
  write("tokenizer.model");
  EXPECT_EQ(found(), "tokenizer.model");
  write("tokenizer.json");
  EXPECT_EQ(found(), "tokenizer.json");
  write("tokenizer.txt");
  EXPECT_EQ(found(), "tokenizer.txt");
}

TEST(FindTokenizer, TakesTheTokenizerThatIsNamedButNoModelOfThatName) {
  const testing::TemporaryFolder folder;
  for (const char* const name :
       {"tokenizer.txt", "tokenizer.model", "tokenizer.onnx", "z.tiktoken", "m.tokenizer.bin"})
    ASSERT_TRUE(write_file(folder.path() / name, std::string_view("x")).ok());
  const auto found = [&](const char* name) {
    return find_tokenizer(folder.path() / name).filename();
  };
  for (const char* const name : {"tokenizer.model", "z.tiktoken", "m.tokenizer.bin"})
    EXPECT_EQ(found(name), name);
  EXPECT_EQ(found("tokenizer.onnx"), "tokenizer.txt");
}

/// Returns a tokenizer with the tokens "a" and "b" and the added tokens `more`, in JSON.
std::unique_ptr<hosted::Tokenizer> letters_and(const std::string& more) {
  const std::string json = R"({"decoder": {"type": "Fuse"},
                               "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
                               "added_tokens": [)" +
                           more + "]}";
  auto tokenizer = hosted::Tokenizer::parse(json, "tokenizer.json");
  EXPECT_TRUE(tokenizer.ok()) << (tokenizer.ok() ? "" : tokenizer.failure().message);
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

TEST(TokenizerTooLarge, CountsTokensThatTextMayBecome) {
  const auto plain = letters_and(R"({"id": 2, "content": "<x>", "special": false})");
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(tokenizer_too_large(*plain, "t.json", 3), std::nullopt);
  EXPECT_EQ(tokenizer_too_large(*plain, "t.json", 64), std::nullopt) << "a padded vocabulary";
  const auto warning = tokenizer_too_large(*plain, "t.json", 1);
  ASSERT_TRUE(warning);
  EXPECT_EQ(warning->file, "t.json");
  EXPECT_THAT(warning->message, ::testing::HasSubstr("has 3 tokens, the model 1"));
  EXPECT_THAT(warning->message, ::testing::HasSubstr("2 tokens that text can produce"));
  EXPECT_NE(warning->hint, "");
  const auto control = letters_and(R"({"id": 2, "content": "<x>", "special": true})");
  ASSERT_NE(control, nullptr);
  EXPECT_EQ(tokenizer_too_large(*control, "t.json", 2), std::nullopt)
      << "no text becomes a control token";
}

}  // namespace
}  // namespace llmc::driver

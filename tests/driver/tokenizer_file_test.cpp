#include "compiler/driver/tokenizer_file.h"

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

}  // namespace
}  // namespace llmc::driver

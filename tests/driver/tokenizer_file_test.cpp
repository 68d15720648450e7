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

}  // namespace
}  // namespace llmc::driver
